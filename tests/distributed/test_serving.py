"""What several processes answer together, each with its share of E, is what one answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from reltucker import Run, open_run, train
from reltucker.errors import ScoreError
from reltucker.evaluation import calibrate
from reltucker.evaluation.classification import classify_triples
from reltucker.model import RelationalTucker
from reltucker.peers import Peers
from reltucker.serving import answer, discover, limits_of, parse_question, score_triples
from reltucker.training import trained_model
from tests.distributed.threads import together

SETTINGS = {
    "model.entity_dim": 8,
    "train.objective": "k_vs_all",
    "train.epochs": 3,
    "train.validate_every": 3,
    "train.entity_dropout": 0.0,
}
MODELS: dict[str, dict[str, Any]] = {
    "drt": {"model.relation_dim": 4, "model.reciprocal": True, "model.batch_norm": True},
    "complex": {},
}


@pytest.fixture(scope="module", params=MODELS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    chosen = {"model.name": request.param, **SETTINGS, **MODELS[request.param]}
    out = tmp_path_factory.mktemp("serving") / "run"
    return train("families", preset="paper", settings=chosen, out=out, progress=False)


def by_several(run: Run, size: int, ask: Callable[[RelationalTucker], Any]) -> list[Any]:
    def work(peers: Peers) -> Any:
        return ask(trained_model(run.folder, run.graph, peers))

    run.graph.answers("object"), run.graph.answers("subject"), run.graph.answers("relation")
    return together(size, work)


def check_same(run: Run, size: int, ask: Callable[[RelationalTucker], pl.DataFrame]) -> None:
    expected = ask(run.model)
    assert len(expected)
    for found in by_several(run, size, ask):
        assert_frame_equal(found, expected, abs_tol=1e-5)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"in_range": True},
        {"among": "first"},  # of which all but one process have none
        {"held_out": True},
    ],
)
def test_answers(run: Run, size: int, limits: dict[str, Any]) -> None:
    graph, names = run.graph, run.graph.entities.names
    if "among" in limits:
        limits = {"among": names[:3].to_list()}
    asked = [(names[i], "mother", "?") for i in range(40)] + [("?", "mother", names[9])]
    if not limits:
        asked.append((names[0], "?", names[1]))
    questions = [parse_question(graph, *each) for each in asked]
    chosen = limits_of(graph, **limits)

    def ask(model: RelationalTucker) -> pl.DataFrame:
        held_out = limits.get("held_out", False)
        calibration = run.calibration
        return answer(
            model, graph, questions, limits=chosen, held_out=held_out, calibration=calibration
        )

    check_same(run, size, ask)


@pytest.mark.parametrize("per_relation", [False, True])
def test_discoveries(run: Run, per_relation: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reltucker.serving.discovery.PART", 100)
    monkeypatch.setattr("reltucker.serving.best.BLOCK_BYTES", 20_000)
    entities = run.graph.entities.names[:7].to_list()
    for about in (None, entities):

        def ask(model: RelationalTucker, about: Any = about) -> pl.DataFrame:
            rest = {"calibration": run.calibration, "progress": False, "entities": about}
            rest["relations"] = ["mother", "sibling"]
            return discover(model, run.graph, top=20, per_relation=per_relation, **rest)

        check_same(run, 3, ask)


def test_scores_and_ranks_of_triples(run: Run) -> None:
    triples = run.graph.test[:30].astype(np.int64)
    check_same(run, 3, lambda model: score_triples(model, run.graph, triples))


def test_probabilities(run: Run) -> None:
    expected = calibrate(run.model, run.graph)
    scores, relations = np.linspace(-3, 3, 50), np.zeros(50, dtype=np.int64)
    for found in by_several(run, 3, lambda model: calibrate(model, run.graph)):
        assert found.triples == expected.triples
        assert found.corrupted == expected.corrupted
        said = found.probabilities(scores, relations)
        assert said == pytest.approx(expected.probabilities(scores, relations), abs=1e-3)


def test_decisions(run: Run) -> None:
    calibration = run.calibration
    assert calibration is not None
    expected = classify_triples(run.model, run.graph, calibration)
    for found in by_several(run, 3, lambda m: classify_triples(m, run.graph, calibration)):
        assert found.decisions == expected.decisions
        assert found.accuracy == pytest.approx(expected.accuracy, abs=1e-3)
        assert found.roc_auc == pytest.approx(expected.roc_auc, abs=1e-3)


def test_all_refuse_scores_that_are_not_finite(run: Run) -> None:
    question = parse_question(run.graph, run.graph.entities.names[3], "mother", "?")

    def ask(model: RelationalTucker) -> list[str]:
        if model.peers.rank == 1:  # it alone has such rows
            with torch.no_grad():
                model.E[:, 0] = torch.inf
        problems = []
        for work in (
            lambda: answer(model, run.graph, [question]),
            lambda: discover(model, run.graph, progress=False, relations=["mother"]),
        ):
            with pytest.raises(ScoreError) as caught:
                work()
            problems.append(str(caught.value))
        return problems

    for problems in by_several(run, 2, ask):
        assert all("not finite numbers" in problem for problem in problems)


def test_a_large_file_is_used_where_it_lies(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reltucker.training.run_folder.physical_memory", lambda: 10.0)
    read = []
    monkeypatch.setattr(
        "reltucker.training.shards._load", lambda *_: read.append(1), raising=True
    )  # which would copy
    again = open_run(run.path)
    best = str(Path(run.path).resolve() / "best.safetensors")
    assert again.predict(again.graph.entities.names[3], "mother").equals(
        run.predict(run.graph.entities.names[3], "mother")
    )
    assert not read
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert any(best in line for line in maps)
