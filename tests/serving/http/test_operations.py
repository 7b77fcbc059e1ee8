"""Every route answers what the run does."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reltucker import __version__
from reltucker.errors import ReltuckerError
from reltucker.run import Run
from reltucker.serving.http import Predictor, make_app
from tests.serving.http.client import Client
from tests.serving.http.conftest import HOSTILE, RUN

ASKED = {"subject": "e9", "relation": "r1"}


def test_health_and_runs(client: Client, run: Run) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": __version__}
    (summary,) = client.get("/api/runs").json()
    assert summary["name"] == "run"
    assert summary["entities"] == len(run.graph.entities)
    assert summary["triples"]["train"] == len(run.graph.train)
    assert run.result is not None
    assert summary["figures"]["seen"] == run.result["seen"]
    details = client.get(RUN).json()
    assert details["sizes"] == run.describe()
    assert client.get(f"{RUN}/epochs").json() == {"epochs": run.epochs()}


def test_results_by_relation_are_those_of_evaluate(client: Client, run: Run) -> None:
    found = client.get(f"{RUN}/results").json()
    expected = run.evaluate(by="relation", progress=False).to_dict()
    assert found["relations"] == expected["by_relation"]
    assert found["metrics"]["seen"] == expected["seen"]
    assert found["triples"] == len(run.graph.test)


@pytest.mark.parametrize(
    "question",
    [("e9", "r1", "?"), ("?", "r2", HOSTILE[0]), (HOSTILE[3], None, HOSTILE[2]), ("e8", "r0", "?")],
)
@pytest.mark.parametrize("options", [{}, {"top": 3, "known": True}, {"held_out": True}])
def test_answers_are_those_of_the_run(
    client: Client, run: Run, question: tuple[str, ...], options: dict[str, Any]
) -> None:
    asked = dict(zip(("subject", "relation", "object"), question, strict=True))
    document = {"questions": [asked, ASKED], **options}
    answers = client.post(f"{RUN}/predict", document).json()["answers"]
    for found, parts in zip(answers, (question, ("e9", "r1", "?")), strict=True):
        expected = run.predict(*parts, **options).to_dicts()
        for row in (*found, *expected):
            row["score"] = pytest.approx(row["score"], abs=1e-5)
        assert found == expected


def test_scores_are_those_of_the_run(client: Client, run: Run) -> None:
    triples = [("e9", "r1", HOSTILE[0]), ("Entity 6", "r0", "e9"), ("e9", "r3", "e31")]
    found = client.post(f"{RUN}/score", {"triples": triples}).json()["triples"]
    assert found == run.score(triples, progress=False).to_dicts()
    assert found[2]["score"] is None
    reply = client.post(f"{RUN}/score", {"triples": [*triples, ("e9", "r1", "nobody")]})
    assert reply.status == 422
    assert reply.json()["detail"].startswith("row 4: no entity is called 'nobody'")


def test_calibration_is_told(client: Client, run: Run) -> None:
    assert run.calibration is not None
    found = client.get(f"{RUN}/calibration").json()
    assert found["reliability"] == run.calibration.to_dict()["reliability"]
    assert found["threshold"] == run.calibration.threshold
    assert client.get("/api/runs").json()[0]["calibrated"] is True


def test_without_calibration_there_is_no_probability(predictor: Predictor) -> None:
    plain = replace(predictor, calibration=None)
    with Client(make_app([plain])) as client:
        ((answer, *_),) = client.post(f"{RUN}/predict", {"questions": [ASKED]}).json()["answers"]
        reply = client.get(f"{RUN}/calibration")
    assert answer["probability"] is None
    assert reply.status == 422
    assert "`reltucker calibrate` makes them" in reply.json()["detail"]


LIMITS = [{"in_range": True}, {"among": ["e9", "Entity 6", "e20"]}, {"where": ["r0=e9"]}]


@pytest.mark.parametrize("limits", LIMITS)
def test_candidates_can_be_limited(client: Client, run: Run, limits: dict[str, Any]) -> None:
    (found,) = client.post(f"{RUN}/predict", {"questions": [ASKED], **limits}).json()["answers"]
    expected = run.predict("e9", "r1", **limits)
    assert [row["answer"] for row in found] == expected["answer"].to_list()
    reply = client.post(
        f"{RUN}/predict", {"questions": [ASKED, {"subject": "e9", "object": "e10"}], **limits}
    )
    assert reply.status == 422
    assert reply.json()["detail"].startswith("question 2: candidates can be limited where")


def test_why_is_that_of_the_run(client: Client, run: Run) -> None:
    triple = ("e9", "r1", HOSTILE[0])
    asked = dict(zip(("subject", "relation", "object"), triple, strict=True))
    found = client.post(f"{RUN}/why", {**asked, "top": 4}).json()
    assert found == json.loads(json.dumps(run.why(*triple, top=4).to_dict()))
    (way,) = found["asked"]
    assert sum(part["part"] for part in way["parts"]) + way["rest"] == pytest.approx(way["score"])


def test_a_new_entity_is_asked_about_and_forgotten(
    client: Client, run: Run, tmp_path: Path
) -> None:
    name = "<new>"
    triples = [(name, "r0", "e9"), ("e10", "r1", name)]
    question = {"subject": name, "relation": "r1"}
    document = {"triples": triples, "questions": [question], "top": 3}
    found = client.post(f"{RUN}/add", document).json()
    assert found["entities"] == [name]
    expected = run.add(triples, out=tmp_path / "more", progress=False).predict(name, "r1", top=3)
    (answers,) = found["answers"]
    assert [row["answer"] for row in answers] == expected["answer"].to_list()
    assert client.post(f"{RUN}/predict", {"questions": [question]}).status == 422
    assert client.post(f"{RUN}/add", {"triples": triples}).json()["answers"] == []
    reply = client.post(f"{RUN}/add", {"triples": [("e9", "r0", "e10")]})
    assert reply.status == 422
    assert "no new entity" in reply.json()["detail"]


@pytest.mark.parametrize(
    "wanted",
    [{"top": 5}, {"top": 2, "per_relation": True}, {"entities": ["e9"], "relations": ["r1"]}],
)
def test_new_facts_are_those_of_the_run(client: Client, run: Run, wanted: dict[str, Any]) -> None:
    reply = client.post(f"{RUN}/discover", wanted)
    assert reply.headers["content-type"] == "application/x-ndjson"
    expected = run.discover(**wanted, progress=False).to_dicts()
    assert [line["fact"] for line in reply.lines()] == expected
    reply = client.post(f"{RUN}/discover", {"entities": ["nobody"]})
    assert reply.status == 422
    assert "nobody" in reply.json()["detail"]


def test_what_is_alike_is_that_of_the_run(client: Client, run: Run) -> None:
    for options in ({"name": "e9", "top": 3}, {"name": "r1", "kind": "relation"}):
        found = client.get(f"{RUN}/similar", **options).json()
        assert found == run.similar(**options).to_dicts()
    found = client.get(f"{RUN}/duplicates", least=0.5, top=4).json()
    assert found == run.duplicates(4, least=0.5, progress=False).to_dicts()
    found = client.get(f"{RUN}/links", least=0.1).json()
    assert found == run.relation_links(least=0.1).to_dicts()


def slow_search(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[int]:
    """Make the search for facts last so long; returns what it told of itself."""
    told: list[int] = []

    def search(*_: Any, watch: Callable[[int, int], None], **__: Any) -> Any:
        for done in range(round(100 * seconds)):
            time.sleep(0.01)
            watch(done, 1000)
            told.append(done)
        raise ReltuckerError("here it ends")

    monkeypatch.setattr("reltucker.serving.http.streaming.discover", search)
    monkeypatch.setattr("reltucker.serving.http.streaming.EVERY", 0.02)
    return told


def test_short_questions_do_not_wait_for_long_work(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = slow_search(monkeypatch, 0.6)

    async def both() -> tuple[Any, Any, int]:
        long = asyncio.create_task(client.post_later(f"{RUN}/discover", {}))
        while not told:
            await asyncio.sleep(0.01)
        short = await client.post_later(f"{RUN}/predict", {"questions": [ASKED]})
        done = len(told)
        return await long, short, done

    long, short, done = client.runner.run(both())
    assert short.status == 200
    assert done < 60
    assert long.status == 200
    *progress, last = long.lines()
    assert last == {"error": "here it ends"}
    assert all(line["total"] == 1000 for line in progress)
    assert [line["done"] for line in progress] == sorted(line["done"] for line in progress)


def test_long_work_ends_when_nobody_waits_for_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = slow_search(monkeypatch, 5.0)

    async def leave() -> None:
        asking = asyncio.create_task(client.post_later(f"{RUN}/discover", {}))
        while len(told) < 10:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.sleep(0.1)

    client.runner.run(leave())
    count = len(told)
    assert count < 100
    assert client.post(f"{RUN}/predict", {"questions": [ASKED]}).status == 200
    assert len(told) <= count + 1


def test_questions_that_wait_are_answered_together(predictor: Predictor, run: Run) -> None:
    app = make_app([predictor])
    with Client(app) as client:
        questions = [{"subject": f"e{n}", "relation": "r0"} for n in range(10, 30)]

        async def ask_all() -> Any:
            documents = [{"questions": [question]} for question in questions]
            return await asyncio.gather(
                *(client.post_later(f"{RUN}/predict", document) for document in documents)
            )

        replies = client.runner.run(ask_all())
        figures = client.get("/metrics").body.decode()
    for question, reply in zip(questions, replies, strict=True):
        (found,) = reply.json()["answers"]
        expected = run.predict(question["subject"], "r0")
        assert [row["answer"] for row in found] == expected["answer"].to_list()
    assert "reltucker_questions_total 20\n" in figures
    (batches,) = re.findall(r"^reltucker_batches_total (\d+)$", figures, re.MULTILINE)
    assert 1 <= int(batches) < 10


def test_one_mistake_leaves_other_questions_alone(client: Client) -> None:
    async def ask_both() -> Any:
        documents = [{"questions": [ASKED]}, {"questions": [{**ASKED, "subject": "nobody"}]}]
        return await asyncio.gather(
            *(client.post_later(f"{RUN}/predict", document) for document in documents)
        )

    good, bad = client.runner.run(ask_both())
    assert good.status == 200
    assert bad.status == 422
    assert bad.json()["detail"].startswith("question 1: no entity is called 'nobody'")


def test_names_and_their_neighbourhood(client: Client, run: Run) -> None:
    found = client.get(f"{RUN}/names", prefix="entity 1", limit=3).json()
    assert len(found) == 3
    assert all(row["label"].startswith("Entity 1") for row in found)
    relations = client.get(f"{RUN}/names", kind="relation").json()
    assert sorted(row["name"] for row in relations) == ["r0", "r1", "r2", "r3"]

    name = HOSTILE[0]
    around = client.get(f"{RUN}/neighbourhood", name=name, known=200, predicted=5).json()
    splits = ("train", "valid", "test")
    facts = {
        row
        for split in splits
        for row in run.graph.named(run.graph.split(split)).iter_rows()
        if name in (row[0], row[2])
    }
    parts = ("subject", "relation", "object")
    assert {tuple(row[part] for part in parts) for row in around["known"]} == facts
    assert around["facts"] == len(facts)
    assert len(around["predicted"]) == 5
    for row in around["predicted"]:
        triple = tuple(row[part] for part in parts)
        assert triple not in facts
        assert name in (triple[0], triple[2])


def test_pictures_of_the_model(client: Client, run: Run) -> None:
    core = client.get(f"{RUN}/core").json()
    assert core == {"density": 1.0, "slices": [1.0] * run.model.core.relation_dim}
    mixing = client.get(f"{RUN}/mixing", relation="r2").json()
    assert mixing["step"] == 1
    expected = run.model.mixing_matrix(2).tolist()
    for row, values in zip(mixing["values"], expected, strict=True):
        assert row == pytest.approx(values, rel=1e-3)
    for kind, count in (("entity", run.graph.seen_entities), ("relation", 4)):
        places = client.get(f"{RUN}/map", kind=kind).json()
        assert len(places) == count
        assert places[0]["count"] == max(place["count"] for place in places)


def test_a_large_mixing_matrix_is_thinned(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = predictor.mixing("r0")["values"]
    monkeypatch.setattr("reltucker.serving.http.predictor.MATRIX", 4)
    thinned = predictor.mixing("r0")
    assert thinned["step"] == 2
    block = [whole[i][j] for i in (2, 3) for j in (4, 5)]
    assert thinned["values"][1][2] == max(block, key=abs)


def test_labels_are_told_and_other_names_stay_as_they_are(client: Client) -> None:
    names = [HOSTILE[0], HOSTILE[1], "nobody"]
    reply = client.post(f"{RUN}/labels", {"names": names})
    assert reply.json() == {"labels": ["Entity 0", HOSTILE[1], "nobody"]}
    assert client.post(f"{RUN}/labels", {"kind": "relation", "names": []}).json() == {"labels": []}
