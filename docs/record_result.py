"""Keep the figures of a run for the pages of results; no triples and no weights are among them.

python docs/record_result.py RUN recipes/best/NAME.toml   to docs/results/best/NAME.json
python docs/record_result.py RUN best/NAME                of `reltucker merge`: likewise, with
                                                          what it was made of
python docs/record_result.py RUN                          a trial, judged on validation triples
                                                          alone: docs/results/trials/RUN.json
"""

import json
import sys
from pathlib import Path
from typing import Any

from reltucker import Run, open_run
from reltucker.training import Recipe, settled

ROOT = Path(__file__).parents[1]
TRAINING = ("epochs", "best_epoch", "seconds", "seconds_per_epoch", "standard", "seen", "paper")


def recorded_run(path: Path, recipe: Path) -> dict[str, Any]:
    """What `train`, `evaluate` and `describe-model` tell of a run that has ended."""
    run = open_run(path)
    if settings(settled(Recipe.load(recipe), run.graph)) != settings(run.recipe):
        raise SystemExit(f"{path}: trained by other settings than those of {recipe}")
    return figures_of(run, f"{recipe.parent.name}/{recipe.stem}")


def recorded_merge(path: Path, name: str) -> dict[str, Any]:
    """The same of a merged run, with the recipes of its parts, which its runs are named after."""
    run = open_run(path)
    merged = (run.result or {}).get("merged_from")
    if merged is None:
        raise SystemExit(f"{path}: not a merged run; name the recipe that it was trained by")
    parts = [{"run": Path(part["run"]).name, "weight": part["weight"]} for part in merged]
    return {**figures_of(run, name), "merged_from": parts}


def figures_of(run: Run, name: str) -> dict[str, Any]:
    """What a result file holds of any run."""
    if run.result is None:
        raise SystemExit(f"{run.path}: the training has not ended")
    stem = name.rpartition("/")[2]
    return {
        "recipe": name,
        "train": {"run": f"runs/{stem}", **{key: run.result[key] for key in TRAINING}},
        "test": run.evaluate("test", progress=False).to_dict(),
        "model": run.describe(),
    }


def recorded_trial(path: Path) -> dict[str, Any]:
    """The settings that are not the default ones, and the validation MRR by epoch."""
    run, default = open_run(path), Recipe().model_dump(mode="json")
    valid = [
        [record["epoch"], round(record["valid"]["seen"]["mrr"], 5)]
        for record in run.epochs()
        if record.get("valid") is not None
    ]
    changed = {
        f"{part}.{key}": value
        for part, values in settings(run.recipe).items()
        for key, value in values.items()
        if value != default[part].get(key)
    }
    return {"graph": run.recipe.graph.source, "settings": changed, "valid": valid}


def settings(recipe: Recipe) -> dict[str, Any]:
    """The settings without the graph, whose path may be another one, and without the preset's name,
    which has no effect on them."""
    return recipe.model_dump(exclude={"graph", "recipe"}, mode="json")


def main() -> None:
    """Write the file of one run."""
    path, names = Path(sys.argv[1]), sys.argv[2:]
    if not names:
        record = recorded_trial(path)
    elif names[0].endswith(".toml"):
        record = recorded_run(path, Path(names[0]))
    else:
        record = recorded_merge(path, names[0])
    name = record.get("recipe", f"trials/{path.name}")
    out = ROOT / "docs" / "results" / f"{name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2 if names else None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
