"""Limited answers, new facts and what is alike, as a user meets them."""

import json
from pathlib import Path

import polars as pl
import pytest

from reltucker.graph import SPLITS, load_graph
from tests.cli.test_commands import SETTINGS, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run in it."""
    path = tmp_path_factory.mktemp("answers")
    run("train", "families", *SETTINGS, "--out", "run", cwd=path)
    return path


def test_candidates_are_limited(folder: Path) -> None:
    question = ["predict", "run", "?", "born_in", "Karlsberg", "--json", "--known"]

    def answers(*options: str) -> list[str]:
        return [row["answer"] for row in json.loads(run(*question, *options, cwd=folder).stdout)]

    (folder / "names.txt").write_text("Askvik\nbaker\n")
    named = answers("--among", "Estmark", "--among-file", "names.txt")
    assert sorted(named) == ["Askvik", "Estmark", "baker"]
    people = answers("--in-range", "--top", "1000")
    assert "Askvik" not in people
    assert len(people) > 250
    bakers = answers("--where", "works_as=baker", "--where", "speaks=Norlandic", "--top", "1000")
    graph = load_graph("families")
    facts = set(pl.concat([graph.named(graph.split(split)) for split in SPLITS]).rows())
    assert set(bakers) == {
        person
        for person, relation, object_ in facts
        if (relation, object_) == ("works_as", "baker") and (person, "speaks", "Norlandic") in facts
    }


def test_discover_lists_new_facts(folder: Path) -> None:
    options = ["discover", "run", "--relation", "born_in", "--top", "3"]
    facts = json.loads(run(*options, "--json", cwd=folder).stdout)
    assert [fact["rank"] for fact in facts] == [1, 2, 3]
    assert {fact["relation"] for fact in facts} == {"born_in"}
    text = run(*options, cwd=folder).stdout
    assert all(fact["subject"] in text and fact["object"] in text for fact in facts)
    said = run(*options, "--out", "facts.csv", cwd=folder).stdout
    assert said == "wrote 3 new facts to facts.csv\n"
    assert pl.read_csv(folder / "facts.csv")["subject"].to_list() == [f["subject"] for f in facts]
    options = ["discover", "run", "--per-relation", "--entity", "Karlsberg", "--top", "1", "--json"]
    about = json.loads(run(*options, cwd=folder).stdout)
    assert all("Karlsberg" in (fact["subject"], fact["object"]) for fact in about)
    assert len({fact["relation"] for fact in about}) == len(about) > 1


def test_similar_prints_tables_or_json(folder: Path) -> None:
    rows = json.loads(run("similar", "run", "Karlsberg", "--top", "2", "--json", cwd=folder).stdout)
    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["name"] in run("similar", "run", "Karlsberg", cwd=folder).stdout
    assert "parent" in run("similar", "run", "mother", "--relation", cwd=folder).stdout
    pairs = run("similar", "run", "--duplicates", "--least", "0", "--top", "3", cwd=folder).stdout
    assert "similarity" in pairs
    options = ["similar", "run", "--relations", "--least", "0"]
    links = json.loads(run(*options, "--json", cwd=folder).stdout)
    assert {link["kind"] for link in links} == {"symmetric", "same", "inverse", "sum"}
    assert " + " in run(*options, cwd=folder).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "run", "Karlsberg", "?", "Askvik", "--in-range"], "not for a relation"),
        (["predict", "run", "?", "mother", "Askvik", "--among-file", "no.txt"], "no.txt"),
        (["discover", "run", "--relation", "mothr"], "did you mean 'mother'"),
        (["discover", "run", "--min-probability", "2"], "from 0 to 1"),
        (["similar", "run"], "give a NAME, --duplicates or --relations"),
        (["similar", "run", "Karlsberk"], "did you mean 'Karlsberg'"),
    ],
)
def test_mistakes_get_one_sentence(folder: Path, arguments: list[str], message: str) -> None:
    assert message in run(*arguments, cwd=folder, code=2).stderr
