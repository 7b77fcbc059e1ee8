from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from safetensors.torch import load_file

from reltucker.errors import NameNotFoundError, ReltuckerError
from reltucker.graph import KnowledgeGraph, Vocabulary
from reltucker.model import CORES, RelationalTucker
from reltucker.run import Run, train
from reltucker.serving import export_embeddings, parse_question
from reltucker.serving.tables import write_answers
from reltucker.training import Recipe
from tests.conftest import build_core, random_graph

POSITIONS = ("subject", "relation", "object")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    recipe = Recipe().changed(
        ["model.entity_dim=6", "train.negatives=6", "train.epochs=3", "train.batch_size=50"]
    )
    path = tmp_path_factory.mktemp("runs") / "run"
    return train(random_graph(0), recipe, out=path, progress=False)


def known_triples(graph: KnowledgeGraph, *splits: str) -> set[tuple[int, int, int]]:
    return {tuple(t) for split in splits for t in graph.split(split).tolist()}


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("held_out", [False, True])
def test_answers_equal_brute_force(run: Run, asked: int, known: bool, held_out: bool) -> None:
    graph = run.graph
    triple = graph.test[np.flatnonzero(graph.is_seen(graph.test))[0]].tolist()
    size = graph.seen_relations if asked == 1 else graph.seen_entities
    candidates = []
    for number in range(size):
        candidate = list(triple)
        candidate[asked] = number
        candidates.append(candidate)
    scores = run.model.score(torch.tensor(candidates))
    facts = known_triples(graph, "train", "valid", *([] if held_out else ["test"]))
    expected = sorted(
        (
            (-float(score), number, tuple(candidate) in facts)
            for number, (score, candidate) in enumerate(zip(scores, candidates, strict=True))
            if known or tuple(candidate) not in facts
        ),
    )[:7]
    vocabularies = (graph.entities, graph.relations, graph.entities)
    names = [v.name(n) for v, n in zip(vocabularies, triple, strict=True)]
    names[asked] = "?"
    answers = run.predict(*names, top=7, known=known, held_out=held_out)
    assert answers["answer"].to_list() == [vocabularies[asked].name(n) for _, n, _ in expected]
    assert answers["score"].to_list() == pytest.approx([-s for s, _, _ in expected], abs=1e-5)
    assert answers["known"].to_list() == [fact for _, _, fact in expected]
    assert answers["rank"].to_list() == list(range(1, len(expected) + 1))
    assert answers[POSITIONS[asked]].to_list() == answers["answer"].to_list()


def test_many_questions_equal_single_ones(run: Run) -> None:
    questions = [("e1", "r0", "?"), ("?", "r2", "e4"), ("e3", None, "e5"), ("e1", "r1", "?")]
    many = run.predict_many(questions, top=4, progress=False)
    for number, question in enumerate(questions, start=1):
        one = run.predict(*question, top=4)
        part = many.filter(pl.col("question") == number).drop("question")
        assert_frame_equal(part, one, abs_tol=1e-5)


def test_no_question_gives_an_empty_frame(run: Run) -> None:
    assert run.predict_many([], progress=False).is_empty()


def test_unseen_entities_are_never_answers(run: Run) -> None:
    answers = run.predict("e1", "r0", top=1000)
    assert not set(answers["answer"]) & {"e30", "e31", "e32"}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("e1", "r0", "e2"), "exactly one"),
        (("e1", "?", "?"), "exactly one"),
        (("e1x", "r0", "?"), r"no entity is called 'e1x'; did you mean 'e1"),
        (("e1", "rr0", "?"), r"no relation is called 'rr0'; did you mean 'r0'"),
        (("e31", "r0", "?"), r"'e31' stands in valid or test only"),
        (("x" * 100_000, "r0", "?"), "no entity is called"),
    ],
)
def test_wrong_questions_are_told_in_one_sentence(
    run: Run, question: tuple[str, str, str], message: str
) -> None:
    with pytest.raises(ReltuckerError, match=message) as caught:
        run.predict(*question)
    assert len(str(caught.value)) < 1000
    with pytest.raises(ReltuckerError, match="question 2: "):
        run.predict_many([("e1", "r0", "?"), question], progress=False)


def test_labels_find_and_show_entities() -> None:
    graph = random_graph(1)
    labels = [f"Label {i // 2}" if i < 4 else None for i in range(len(graph.entities))]
    labels[4] = "Only one"
    labelled = KnowledgeGraph(
        "labelled",
        Vocabulary(graph.entities.names, labels),
        graph.relations,
        graph.train,
        graph.valid,
        graph.test,
        graph.seen_entities,
        graph.seen_relations,
    )
    assert parse_question(labelled, "Only one", "r0", "?").first == 4
    with pytest.raises(NameNotFoundError, match="belongs to 2 entities; use a name instead: 'e0'"):
        parse_question(labelled, "Label 0", "r0", "?")


def test_export_writes_what_the_model_holds(run: Run, tmp_path: Path) -> None:
    written = run.export(tmp_path / "out")
    assert sorted(path.name for path in written) == [
        "core.safetensors",
        "entities.parquet",
        "entities.word2vec.txt",
        "relations.parquet",
        "relations.word2vec.txt",
    ]
    frame = pl.read_parquet(tmp_path / "out" / "entities.parquet")
    assert frame["name"].to_list() == run.graph.entities.names.to_list()
    assert np.allclose(frame["embedding"].to_numpy(), run.model.E.numpy())
    lines = (tmp_path / "out" / "relations.word2vec.txt").read_text().splitlines()
    assert lines[0] == "4 4"
    values = np.array([line.split(" ")[1:] for line in lines[1:]], dtype=np.float32)
    assert np.allclose(values, run.model.R.numpy(), atol=1e-6)
    core = load_file(tmp_path / "out" / "core.safetensors")["G"]
    assert torch.equal(core, run.model.core.tensor())


@pytest.mark.parametrize("name", sorted(CORES))
def test_export_of_every_model_with_reciprocal_relations(name: str, tmp_path: Path) -> None:
    graph = random_graph(0)
    model = RelationalTucker(33, 4, build_core(name, 4, 4), reciprocal=True)
    model.reset(torch.Generator().manual_seed(0))
    export_embeddings(model.eval().requires_grad_(False), graph, tmp_path, ["parquet"])
    inverse = pl.read_parquet(tmp_path / "inverse_relations.parquet")
    assert np.allclose(inverse["embedding"].to_numpy(), model.R[4:].numpy())
    core = load_file(tmp_path / "core.safetensors")
    if "G" not in core:
        dense = torch.zeros(4, 4, model.core.relation_dim)
        dense[core["i"], core["j"], core["l"]] = core["value"]
        core = {"G": dense}
    assert torch.equal(core["G"], model.core.tensor())


def test_exported_factors_give_the_scores_of_a_normalised_model(tmp_path: Path) -> None:
    graph = random_graph(0)
    core = CORES["drt"].build(4, 3, 4)
    model = RelationalTucker(33, 4, core, reciprocal=True, batch_norm=True)
    model.reset(torch.Generator().manual_seed(0))
    model.train()
    asks_subject = torch.zeros(33, dtype=torch.bool)
    arrangement = model.arrange(torch.arange(33) % 4, asks_subject)
    model.ask(arrangement, 3 * model.E[arrangement.order] + 1, model.R[arrangement.relations])
    export_embeddings(model.eval().requires_grad_(False), graph, tmp_path, ["parquet"])
    e, r = (
        torch.tensor(pl.read_parquet(tmp_path / f"{stem}.parquet")["embedding"].to_numpy())
        for stem in ("entities", "relations")
    )
    g = load_file(tmp_path / "core.safetensors")["G"]
    scores = torch.einsum("ia,abl,jb,kl->ikj", e, g, e, r)
    triples = torch.cartesian_prod(torch.arange(33), torch.arange(4), torch.arange(33))
    assert torch.allclose(scores.flatten(), model.score(triples), atol=1e-4)


def test_names_that_tsv_cannot_hold_are_refused(tmp_path: Path) -> None:
    answers = pl.DataFrame({"answer": ["a\tb"], "score": [1.0]})
    with pytest.raises(ReltuckerError, match=r"choose a \.csv or \.parquet"):
        write_answers(answers, tmp_path / "x.tsv", "answers")
    assert not (tmp_path / "x.tsv").exists()
    write_answers(answers, tmp_path / "x.csv", "answers")
    assert pl.read_csv(tmp_path / "x.csv")["answer"].to_list() == ["a\tb"]


def test_word2vec_names_stay_apart(tmp_path: Path) -> None:
    names = ["a b", "a\tb", "a_b", "a_b_2", " "]
    graph = KnowledgeGraph(
        "g",
        Vocabulary(names),
        Vocabulary(["r"], kind="relation"),
        *(np.empty((0, 3), dtype=np.int32),) * 3,
        5,
        1,
    )
    model = RelationalTucker(5, 1, CORES["drt"].build(2, 1, 1))
    model.reset(torch.Generator().manual_seed(0))
    export_embeddings(model, graph, tmp_path, ["word2vec"])
    lines = (tmp_path / "entities.word2vec.txt").read_text(encoding="utf-8").splitlines()
    words = [line.split(" ")[0] for line in lines[1:]]
    assert len(set(words)) == 5
    assert words[0] == "a_b"
