"""Keep the figures of a run for docs/results.md; no triples and no weights are among them.

python docs/record_result.py RUN recipes/best/NAME.toml   to docs/results/best/NAME.json
python docs/record_result.py RUN                          a trial, judged on validation triples
                                                          alone: docs/results/trials/RUN.json
"""

import json
import sys
from pathlib import Path
from typing import Any

from reltucker import open_run
from reltucker.training import Recipe

ROOT = Path(__file__).parents[1]
TRAINING = ("epochs", "best_epoch", "seconds", "seconds_per_epoch", "standard", "seen", "paper")


def recorded_run(path: Path, recipe: Path) -> dict[str, Any]:
    """What `train`, `evaluate` and `describe-model` tell of a run that has ended."""
    run = open_run(path)
    if Recipe.load(recipe).model_dump(exclude={"graph"}) != settings_of(path):
        raise SystemExit(f"{path}: trained by other settings than those of {recipe}")
    if run.result is None:
        raise SystemExit(f"{path}: the training has not ended")
    return {
        "recipe": f"{recipe.parent.name}/{recipe.stem}",
        "train": {"run": f"runs/{recipe.stem}", **{key: run.result[key] for key in TRAINING}},
        "test": run.evaluate("test", progress=False).to_dict(),
        "model": run.describe(),
    }


def recorded_trial(path: Path) -> dict[str, Any]:
    """The settings that are not the default ones, and the validation MRR by epoch."""
    recipe, default = Recipe.load(path / "recipe.toml"), Recipe()
    valid = [
        [record["epoch"], round(record["valid"]["seen"]["mrr"], 5)]
        for record in open_run(path).epochs()
        if record.get("valid") is not None
    ]
    changed = {
        f"{part}.{key}": value
        for part, values in recipe.model_dump(exclude={"graph"}, mode="json").items()
        for key, value in values.items()
        if value != getattr(getattr(default, part), key)
    }
    return {"graph": recipe.graph.source, "settings": changed, "valid": valid}


def settings_of(path: Path) -> dict[str, Any]:
    """The settings of a run without its graph, whose path may be another one."""
    return Recipe.load(path / "recipe.toml").model_dump(exclude={"graph"})


def main() -> None:
    """Write the file of one run."""
    path, recipes = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    record = recorded_run(path, recipes[0]) if recipes else recorded_trial(path)
    name = record["recipe"] if recipes else f"trials/{path.name}"
    out = ROOT / "docs" / "results" / f"{name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2 if recipes else None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
