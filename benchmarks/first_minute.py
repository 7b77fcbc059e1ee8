"""The first minute with reltucker: help, compiling loops, the demo.

    python -m benchmarks.first_minute [--models complex,drt,srt] [--no-demo] [--json FILE]

Every measurement is a fresh process. Models and the demo begin with an empty cache of compiled
loops, as after an installation; each model is then trained once more with the cache that it filled.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.report import Column, Table

HELP_RUNS = 7
EPOCHS = 6


def seconds_of(arguments: list[str], home: Path) -> float:
    """How long a command takes whose caches are in `home`."""
    caches = {"NUMBA_CACHE_DIR": str(home / "loops"), "RELTUCKER_HOME": str(home / "graphs")}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "reltucker", *arguments],
        env={**os.environ, **caches},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return time.perf_counter() - began


def measure_help(home: Path) -> dict[str, float]:
    """The median of several runs, the first of which warms the disk cache."""
    seconds = [seconds_of(["--help"], home) for _ in range(HELP_RUNS + 1)]
    return {"seconds": median(seconds[1:])}


def measure_model(name: str, home: Path) -> dict[str, float]:
    """Train on the built-in graph, with an empty cache of loops and with a full one."""
    options = ["train", "families", "--model", name, "--epochs", str(EPOCHS), "--out"]
    cold = seconds_of([*options, str(home / "cold")], home)
    warm = seconds_of([*options, str(home / "warm")], home)
    lines = (home / "cold" / "epochs.jsonl").read_text(encoding="utf-8").splitlines()
    first, *later = [json.loads(line)["epoch_seconds"] for line in lines]
    return {
        "first_epoch": first,
        "later_epoch": median(later),
        "compilation": first - median(later),
        "seconds": cold,
        "seconds_with_loops": warm,
        "ratio": cold / warm,
    }


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_minute", description=__doc__)
    parser.add_argument("--models", default="complex,drt,srt", help="names, separated by commas")
    parser.add_argument("--no-demo", action="store_true", help="leave out the demo")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    results: dict[str, Any] = {
        "machine": {"processor": platform.machine(), "cores": len(os.sched_getaffinity(0))}
    }
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        say("help")
        results["reltucker --help"] = measure_help(home / "help")
        for name in options.models.split(","):
            say(f"{name}, compiling")
            results[f"{EPOCHS} epochs of {name}"] = measure_model(name, home / name)
        if not options.no_demo:
            say("demo")
            demo = seconds_of(["demo", "--out", str(home / "report")], home / "demo")
            results["reltucker demo"] = {"seconds": demo}
    columns = [
        Column("work", "work"),
        Column("seconds", "seconds", ".2f"),
        Column("with compiled loops", "seconds_with_loops", ".2f"),
        Column("ratio", "ratio", ".2f"),
        Column("first epoch", "first_epoch", ".2f"),
        Column("later epoch", "later_epoch", ".2f"),
        Column("compilation", "compilation", ".2f"),
    ]
    rows = [{"work": work, **found} for work, found in results.items() if work != "machine"]
    title = f"The first minute on {results['machine']['cores']} cores, nothing compiled before"
    console().print(Table(title, columns, rows).to_rich())
    if options.json:
        write_json(options.json, results)


def say(text: str) -> None:
    """Tell what is being measured."""
    print(f"measuring: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
