"""Run the measurements of training and ranking on FB15K-237 and print ratios.

    python -m benchmarks [--data FOLDER] [--peers] [--objectives | --family | --sparsity] [--json F]

FOLDER holds train, valid and test of FB15K-237; by default the catalog's copy is taken. With
--peers, PyKEEN does the same work in the same run; --objectives measures the steps of all
objectives, --family those of all models, and --sparsity those of SRT at several densities, instead.
"""

import argparse
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.epoch import measure_epoch
from benchmarks.family import measure_family
from benchmarks.machine import matmul_rate
from benchmarks.objectives import SIZES, measure_objectives
from benchmarks.peers import measure_pykeen, pykeen_python
from benchmarks.ranking import measure_ranking
from benchmarks.sparsity import measure_sparsity
from reltucker.atomic import write_json
from reltucker.cli.output import console
from reltucker.graph import KnowledgeGraph, load_graph
from reltucker.graph.catalog import ENTRIES
from reltucker.report import Column, Table
from reltucker.training import Recipe

EPOCHS: dict[str, dict[str, Any]] = {
    "drt 100/237": {"model.name": "drt", "model.entity_dim": 100, "model.relation_dim": 237},
    "complex 200": {"model.name": "complex", "model.entity_dim": 200},
}
PEERS = {
    "drt 100/237": {"model": "tucker", "entity_dim": 100, "relation_dim": 237, "steps": 3},
    "complex 200": {"model": "complex", "entity_dim": 200, "steps": 20},
}


def main() -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the splits of FB15K-237")
    parser.add_argument("--peers", action="store_true", help="measure PyKEEN in the same run")
    parser.add_argument("--pykeen-python", type=Path, help="a Python that has PyKEEN already")
    parser.add_argument("--epochs", type=int, default=2, help="epochs to time; the best counts")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--objectives", action="store_true", help="every objective instead")
    parser.add_argument("--family", action="store_true", help="steps of every model instead")
    parser.add_argument("--sparsity", action="store_true", help="steps of SRT by density instead")
    options = parser.parse_args()
    folder = options.data or ENTRIES["fb15k-237"].folder
    graph = load_graph(folder if options.data else "fb15k-237")

    if options.objectives:
        python = pykeen_python(options.pykeen_python) if options.peers else None
        results = steps_of_objectives(folder, python)
        if options.json:
            write_json(options.json, results)
        return
    if options.family or options.sparsity:
        results = steps_of_models(graph, options.family, options.sparsity)
        if options.json:
            write_json(options.json, results)
        return
    say("matmul rate")
    results = {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "matmul_2048_gflops": matmul_rate() / 1e9,
        },
        "epochs": {},
    }
    rows = []
    for name, settings in EPOCHS.items():
        say(f"epoch of {name}")
        figures = measure_epoch(graph, settings, options.epochs)
        results["epochs"][name] = figures
        rows.append(
            {
                "work": f"epoch of {name}, batch 500, 24+24 negatives",
                "ours": figures["seconds_per_epoch"],
                "floor": figures["seconds_of_operations"],
                "ratio": figures["ratio_to_operations"],
            }
        )
        if options.peers:
            say(f"PyKEEN's epoch of {name}")
            python = pykeen_python(options.pykeen_python)
            peer = measure_pykeen(python, folder, "epoch", **PEERS[name])
            figures["pykeen"] = peer
            rows[-1] |= {
                "pykeen": peer["seconds_per_epoch"],
                "faster": peer["seconds_per_epoch"] / figures["seconds_per_epoch"],
            }
    say("test ranking")
    figures = measure_ranking(graph, Recipe().with_values(EPOCHS["drt 100/237"]))
    results["ranking"] = figures
    rows.append(
        {
            "work": "test ranking of drt 100/237, three protocols",
            "ours": figures["seconds"],
            "floor": figures["seconds_of_products"],
            "ratio": figures["ratio_to_products"],
        }
    )
    if options.peers:
        say("PyKEEN's test ranking")
        python = pykeen_python(options.pykeen_python)
        peer = measure_pykeen(python, folder, "ranking", entity_dim=100, relation_dim=237)
        figures["pykeen"] = peer
        rows[-1] |= {"pykeen": peer["seconds"], "faster": peer["seconds"] / figures["seconds"]}

    rate = results["machine"]["matmul_2048_gflops"]
    columns = [
        Column("work", "work"),
        Column("seconds", "ours", ".2f"),
        Column("operations alone", "floor", ".2f"),
        Column("ratio", "ratio", ".2f"),
        Column("PyKEEN seconds", "pykeen", ",.0f"),
        Column("times faster", "faster", ",.0f"),
    ]
    console().print(Table(f"Machine: {rate:.0f} GFLOPS (2048 matmul)", columns, rows).to_rich())
    if options.json:
        write_json(options.json, results)


def steps_of_models(graph: KnowledgeGraph, family: bool, sparsity: bool) -> dict[str, Any]:
    """Compare single steps and print tables."""
    results: dict[str, Any] = {"matmul_2048_gflops": matmul_rate() / 1e9}
    columns = [Column("model", "model"), Column("ms a step", "ms", ".2f")]
    if family:
        for entity_dim in (100, 200):
            say(f"every model, entity_dim {entity_dim}")
            found = measure_family(graph, entity_dim)
            results[f"family {entity_dim}"] = found
            rows = [
                {"model": name, "ms": ms, "ratio": found["ratio_to_complex"][name]}
                for name, ms in found["milliseconds_per_step"].items()
            ]
            ratio = Column("ratio to complex", "ratio", ".2f")
            title = f"entity_dim {entity_dim}, batch 500, 24+24 negatives"
            console().print(Table(title, [*columns, ratio], rows).to_rich())
    if sparsity:
        for sizes in ((100, 237), (100, 100), (200, 200)):
            say(f"SRT by density, {sizes[0]}/{sizes[1]}")
            found = measure_sparsity(graph, *sizes)
            results[f"sparsity {sizes[0]}/{sizes[1]}"] = found
            rows = [
                {"model": name, "ms": ms} for name, ms in found["milliseconds_per_step"].items()
            ]
            title = (
                f"{sizes[0]}/{sizes[1]}: dense SRT / DRT {found['dense_srt_to_drt']:.2f}, "
                f"SRT at 1 % / ComplEx {found['one_percent_srt_to_complex']:.2f}"
            )
            console().print(Table(title, columns, rows).to_rich())
    return results


def steps_of_objectives(folder: Path, pykeen: Path | None) -> dict[str, Any]:
    """Measure every objective, PyKEEN's LCWA beside it where asked, and print a table."""
    say("every objective")
    results: dict[str, Any] = {"objectives": measure_objectives(folder)}
    rows = [{"work": name, **figures} for name, figures in results["objectives"].items()]
    if pykeen is not None:
        results["pykeen"] = {}
        for entity_dim, relation_dim in SIZES:
            say(f"PyKEEN's LCWA, {entity_dim}/{relation_dim}")
            sizes = {"entity_dim": entity_dim, "relation_dim": relation_dim, "batch_size": 512}
            peer = measure_pykeen(pykeen, folder, "lcwa", **sizes, steps=2)
            ours = results["objectives"][f"k_vs_all binary {entity_dim}/{relation_dim}"]
            peer["times_slower"] = peer["seconds_per_epoch"] / ours["seconds_per_epoch"]
            peer["times_more_memory"] = peer["peak_gib"] / ours["peak_gib"]
            results["pykeen"][f"{entity_dim}/{relation_dim}"] = peer
            rows.append({"work": f"PyKEEN TuckER LCWA {entity_dim}/{relation_dim}", **peer})
    columns = [
        Column("objective", "work"),
        Column("ms a step", "milliseconds_per_step", ".1f"),
        Column("GFLOP", "gflop_per_step", ".1f"),
        Column("of matmul rate", "share_of_matmul_rate", ".0%"),
        Column("s an epoch", "seconds_per_epoch", ",.1f"),
        Column("peak GiB", "peak_gib", ".2f"),
        Column("times slower", "times_slower", ",.0f"),
        Column("times more memory", "times_more_memory", ".1f"),
    ]
    console().print(Table("DRT, reciprocal, batch 512, Adam", columns, rows).to_rich())
    return results


def say(text: str) -> None:
    """Tell what is being measured."""
    print(f"measuring: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
