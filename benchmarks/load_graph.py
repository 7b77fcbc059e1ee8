"""How much longer loading and indexing a graph takes than polars needs to read and factorise it.

Each measurement is a fresh process, and the two sides take turns, so that other work on the
machine slows both:

    python benchmarks/load_graph.py --triples 20000000 --entities 5000000 --repeats 3
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

RELATIONS = 1000


def make_triples(triples: int, entities: int, relations: int, seed: int = 0) -> pl.DataFrame:
    """Distinct-looking triples: a few entities in many of them, every entity in one."""
    generator = np.random.default_rng(seed)

    def skewed(size: int, power: int) -> np.ndarray:
        return (size * generator.random(triples) ** power).astype(np.int64)

    ids = generator.permutation(entities)
    subjects, objects = ids[skewed(entities, 2)], ids[skewed(entities, 3)]
    covered = min(entities, triples)
    subjects[:covered] = ids[:covered]
    frame = pl.DataFrame({"s": subjects, "r": skewed(relations, 3), "o": objects})
    return frame.sample(fraction=1.0, shuffle=True, seed=seed).select(
        pl.format("Q{}", "s").alias("s"),
        pl.format("P{}", "r").alias("r"),
        pl.format("Q{}", "o").alias("o"),
    )


def polars_alone(path: Path) -> None:
    """Read the file and give ids to its names: categoricals are polars' fastest way to do so."""
    frame = pl.read_csv(
        path,
        separator="\t",
        has_header=False,
        quote_char=None,
        schema=dict.fromkeys(("s", "r", "o"), pl.String),
    )
    frame.select(pl.all().cast(pl.Categorical).to_physical())


def reltucker_whole(path: Path) -> None:
    """Read, check, number, deduplicate and, for one file, split; then index both directions."""
    from reltucker.graph import load_graph

    graph = load_graph(path)
    graph.answers("object")
    graph.answers("subject")


SIDES = {"polars": polars_alone, "reltucker": reltucker_whole}


def measure(side: str, path: Path) -> dict[str, float]:
    """Seconds and peak memory of one side in a fresh process, without the imports."""
    command = [sys.executable, __file__, "--side", side, "--path", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def run_side(side: str, path: Path) -> None:
    """The fresh process: run one side and print what it took."""
    if side == "reltucker":
        import reltucker.graph  # noqa: F401
    start = time.perf_counter()
    SIDES[side](path)
    seconds = time.perf_counter() - start
    # Linux counts in KiB, macOS in bytes.
    unit = 2**30 if sys.platform == "darwin" else 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(json.dumps({"seconds": seconds, "peak_gib": peak}))


def main() -> None:
    """Make the file, let the sides take turns, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", action="store_true", help="a folder with train.tsv only, so without splitting"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--side", choices=[*SIDES, "make"], help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side == "make":
        frame = make_triples(options.triples, options.entities, RELATIONS)
        frame.write_csv(options.path, separator="\t", include_header=False)
        return
    if options.side:
        run_side(options.side, options.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.tsv"
        # In a process of its own, for a child's peak memory counts from its parent's size.
        sizes = ["--triples", str(options.triples), "--entities", str(options.entities)]
        subprocess.run(
            [sys.executable, __file__, "--side", "make", "--path", str(path), *sizes], check=True
        )
        targets = {"polars": path, "reltucker": path.parent if options.folder else path}
        runs = [
            {side: measure(side, targets[side]) for side in SIDES} for _ in range(options.repeats)
        ]
    ratios = [run["reltucker"]["seconds"] / run["polars"]["seconds"] for run in runs]
    result = {
        "triples": options.triples,
        "entities": options.entities,
        "source": "folder" if options.folder else "file",
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "sides": {
            side: {
                "seconds": statistics.median(run[side]["seconds"] for run in runs),
                "peak_gib": max(run[side]["peak_gib"] for run in runs),
            }
            for side in SIDES
        },
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{options.triples:,} triples over {options.entities:,} entities, one {result['source']}")
    print(f"{'':<12}{'seconds':>9}{'peak GiB':>10}")
    for side, figures in result["sides"].items():
        print(f"{side:<12}{figures['seconds']:>9.2f}{figures['peak_gib']:>10.2f}")
    print(f"ratio {result['ratio']:.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")


if __name__ == "__main__":
    main()
