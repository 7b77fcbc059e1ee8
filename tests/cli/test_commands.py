"""The command line as a user meets it: what commands print, and their exit codes."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest

from reltucker.cli import main

COMMAND = [sys.executable, "-m", "reltucker"]
SETTINGS = [
    "--preset",
    "paper",
    "--entity-dim",
    "8",
    "--epochs",
    "3",
    "--set",
    "train.batch_size=250",
]


def reltucker(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(cwd), capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def run(
    *arguments: str, cwd: Path, code: int = 0, columns: str = "100"
) -> subprocess.CompletedProcess[str]:
    """The same in this process, which need not import torch again."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            patch.dict(os.environ, environment(cwd, columns)),
            patch.object(sys, "argv", ["reltucker", *arguments]),
            patch.object(warnings, "formatwarning"),
            warnings.catch_warnings(action="default"),
            pytest.raises(SystemExit) as ended,
        ):
            main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (ended.value.code or 0) == code, err.getvalue()
    return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())


def environment(folder: Path, columns: str = "100") -> dict[str, str]:
    return {**os.environ, "RELTUCKER_HOME": str(folder / "home"), "COLUMNS": columns}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run in it."""
    path = tmp_path_factory.mktemp("cli")
    done = reltucker("train", "families", *SETTINGS, "--out", "run", "--json", cwd=path)
    result = json.loads(done.stdout)
    assert result["run"] == "run"
    assert result["epochs"] == 3
    for key in ("best_epoch", "seconds", "seconds_per_epoch"):
        assert result[key] > 0
    metrics = {"mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "queries"}
    for protocol in ("standard", "seen", "paper"):
        assert set(result[protocol]) == metrics
    return path


def test_evaluate_prints_one_json_document(folder: Path) -> None:
    figures = json.loads(run("evaluate", "run", "--json", cwd=folder).stdout)
    assert figures["split"] == "test"
    assert (figures["model"], figures["entity_dim"], figures["relation_dim"]) == ("drt", 8, 8)
    assert figures["effective_relation_size"] == pytest.approx((8 * 8 * 8 + 20 * 8) / 20)
    assert figures["effective_parameters"] == 8 * 8 * 8 + 20 * 8 + 442 * 8
    assert figures["standard"]["queries"] == 2 * 993
    assert figures["paper"]["mrr"] <= figures["seen"]["mrr"]


def test_evaluate_breaks_down(folder: Path) -> None:
    options = ["--split", "valid", "--by", "relation", "--json"]
    figures = json.loads(run("evaluate", "run", *options, cwd=folder).stdout)
    assert figures["split"] == "valid"
    assert sum(g["seen"]["queries"] for g in figures["by_relation"]) == figures["seen"]["queries"]
    text = run("evaluate", "run", "--by", "kind", "--protocol", "all", cwd=folder).stdout
    assert re.search(r"N-N +standard .*\n +N-N +seen .*\n +N-N +paper", text)
    assert "hits@10" in text


def test_a_break_down_shows_one_protocol_by_counts(folder: Path) -> None:
    figures = json.loads(run("evaluate", "run", "--by", "relation", "--json", cwd=folder).stdout)
    expected = {row["relation"]: row for row in figures["by_relation"]}
    for protocol in ("seen", "paper"):
        options = [] if protocol == "seen" else ["--protocol", protocol]
        text = run("evaluate", "run", "--by", "relation", *options, cwd=folder).stdout
        assert f"protocol {protocol}" in text
        rows = [line.split() for line in text.splitlines() if line.split()[:1]]
        rows = [row for row in rows if row[0] in expected]
        assert len(rows) == len(expected)
        for row in rows:
            assert row[1] == f"{expected[row[0]][protocol]['mrr']:.4f}"
            assert row[-1] == f"{expected[row[0]][protocol]['queries']:,}"
        counts = [int(row[-1].replace(",", "")) for row in rows]
        assert counts == sorted(counts, reverse=True)


def test_figures_say_which_answers_were_left_out(folder: Path) -> None:
    result = json.loads((folder / "run" / "result.json").read_text())
    full = result["valid_full_filter"]
    assert full["mrr"] > result["seen"]["mrr"]
    assert full["queries"] == result["seen"]["queries"]
    told = [
        f"validation: MRR {result['seen']['mrr']:.4f}, "
        f"HITS@10 {result['seen']['hits@10']:.4f} (answers of train and valid left out)",
        f"  with answers of test left out too, as on test: MRR {full['mrr']:.4f}, "
        f"HITS@10 {full['hits@10']:.4f}",
    ]
    assert run("resume", "run", cwd=folder).stdout.splitlines()[1:3] == told
    lines = run("evaluate", "run", cwd=folder).stdout.splitlines()
    assert lines[-2:] == told
    assert "answers left out: those of train, valid and test" in lines[-3]
    valid = json.loads(run("evaluate", "run", "--split", "valid", "--json", cwd=folder).stdout)
    assert valid["seen"] == pytest.approx(result["seen"])
    assert valid["valid_full_filter"] == pytest.approx(full)
    text = run("evaluate", "run", "--split", "valid", cwd=folder).stdout
    assert f"{full['mrr']:.4f}" in text
    assert "answers left out: those of train and valid\n" in text


def test_describe_model_counts_parameters(folder: Path) -> None:
    figures = json.loads(run("describe-model", "run", "--json", cwd=folder).stdout)
    assert figures["nnfp_core"] == 8 * 8 * 8
    assert figures["nnfp_relations"] == 20 * 8
    assert figures["nnfp_entities"] == 442 * 8
    assert figures["effective_parameters"] == 8 * 8 * 8 + 20 * 8 + 442 * 8
    assert figures["core_density"] == 1.0
    assert figures["constrained"]["nnfp_core"] == 20 * 8 * 8
    assert "constrained core" in run("describe-model", "run", cwd=folder).stdout


def test_inspect_writes_pictures_and_a_page(folder: Path) -> None:
    done = run("inspect", "run", "--relation", "mother", "--out", "look", cwd=folder)
    assert "sum of absolute diagonal values" in done.stdout
    assert (folder / "look" / "mixing-1.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "look" / "inspection.html").is_file()
    done = run("inspect", "run", "--relation", "mother", "--json", cwd=folder)
    assert isinstance(json.loads(done.stdout), dict)


def test_compare_prints_tables_or_one_json_document_and_writes_files(folder: Path) -> None:
    settings = [*SETTINGS, "--model", "complex", "--reciprocal"]
    done = run("train", "families", *settings, "--out", "other", cwd=folder)
    assert "next: reltucker evaluate other" in done.stdout
    compare = ["compare", "run", "other", "--resamples", "200", "--protocol", "paper"]
    done = run(*compare, "--relation", "mother", "--out", "cmp", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert (document["protocol"], document["split"]) == ("paper", "test")
    assert document["runs"] == ["run", "other"]
    assert [row["model"] for row in document["tables"]["best"]] == ["DRT", "ComplEx, reciprocal"]
    assert document["tables"]["patterns"][0]["relation"] == "mother"
    assert all((folder / file).is_file() for file in document["files"])
    assert "cmp/comparison.html" in document["files"]
    before = sorted(folder.rglob("*"))
    text = run(*compare, cwd=folder).stdout
    assert "Best fit of each model" in text
    assert "with a paired test" in text
    difference = document["tables"]["differences"][0]
    assert f"{difference['difference']:+.4f}" in text
    assert f"{difference['p']:.4f}" in text
    assert sorted(folder.rglob("*")) == before


def test_srt_shows_its_density(folder: Path) -> None:
    settings = {
        "core.warm_up_epochs": 1,
        "core.l0_weight": 20,
        "train.epochs": 12,
        "train.batch_size": 50,
        "train.max_density": 0.9,
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    options += ["--model", "srt", "--entity-dim", "8", "--json"]
    done = run("train", "families", *options, cwd=folder)
    assert "density" in done.stderr
    figures = json.loads(
        run("evaluate", json.loads(done.stdout)["run"], "--json", cwd=folder).stdout
    )
    assert 0 < figures["core_density"] <= 0.9


def test_predict_prints_a_table_or_json(folder: Path) -> None:
    name = pl.read_parquet(folder / "run" / "entities.parquet")["name"][0]
    question = ["predict", "run", name, "mother", "?", "--top", "4"]
    rows = json.loads(run(*question, "--json", cwd=folder).stdout)
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert {row["subject"] for row in rows} == {name}
    text = run(*question, cwd=folder).stdout
    assert all(row["answer"] in text for row in rows)


def test_a_whole_triple_has_no_candidates_to_limit(folder: Path) -> None:
    name = pl.read_parquet(folder / "run" / "entities.parquet")["name"][0]
    triple = ["predict", "run", name, "mother", name]
    assert len(json.loads(run(*triple, "--json", cwd=folder).stdout)) == 1
    assert "'?'" in run(*triple, "--in-range", cwd=folder, code=2).stderr


def test_labels_may_come_after_training(folder: Path) -> None:
    names = pl.read_parquet(folder / "run" / "entities.parquet")["name"]
    rows = "".join(f"{name}\tnumber {n}\n" for n, name in enumerate(names))
    (folder / "numbers.tsv").write_text(f"id\tname\n{rows}mother\tis child of\n")
    question = ["predict", "run", "number 0", "is child of", "?", "--labels", "numbers.tsv"]
    answers = json.loads(run(*question, "--json", cwd=folder).stdout)
    assert all(row["label"] == f"number {names.index_of(row['answer'])}" for row in answers)
    shown = run("evaluate", "run", "--by", "relation", *question[-2:], cwd=folder).stdout
    assert "is child of" in shown
    asked = ["compare", "run", "--sparse", "run", "--relation", "is child of", *question[-2:]]
    drawn = run(*asked, "--json", cwd=folder).stdout
    assert "is child of" in drawn
    assert "none.tsv" in run(*question[:-1], "none.tsv", cwd=folder, code=2).stderr


def test_batch_prediction_from_and_to_files(folder: Path) -> None:
    name = pl.read_parquet(folder / "run" / "entities.parquet")["name"][0]
    (folder / "questions.tsv").write_text(f"{name}\tmother\t?\n?\tborn_in\tKarlsberg\n")
    readers = {
        "tsv": lambda path: pl.read_csv(path, separator="\t", quote_char=None),
        "csv": pl.read_csv,
        "parquet": pl.read_parquet,
    }
    for suffix, read in readers.items():
        out = f"answers.{suffix}"
        options = ["--questions", "questions.tsv", "--out", out, "--top", "2"]
        said = run("predict", "run", *options, cwd=folder).stdout
        assert said == f"wrote 4 answers to {out}\n"
        frame = read(folder / out)
        assert frame["question"].to_list() == [1, 1, 2, 2]
        assert frame["rank"].to_list() == [1, 2, 1, 2]


def test_a_batch_answers_what_can_be_asked_and_lists_the_rest(folder: Path) -> None:
    name = pl.read_parquet(folder / "run" / "entities.parquet")["name"][0]
    (folder / "some.tsv").write_text(
        f"Nobody\tmother\t?\n{name}\tmother\t?\n?\t?\tKarlsberg\n?\tborn_in\tKarlsberg\n"
    )
    ask = ["predict", "run", "--questions", "some.tsv", "--top", "2"]
    done = run(*ask, cwd=folder, code=3)
    for question in (f"{name}, mother, ?", "?, born_in, Karlsberg"):
        assert done.stdout.count(question) == 2
    first, *listed = done.stderr.splitlines()
    assert first == "warning: 2 of 4 questions cannot be asked:"
    assert [line.split(":")[0] for line in listed] == ["  question 1", "  question 3"]
    assert "no entity is called 'Nobody'" in listed[0]
    rows = json.loads(run(*ask, "--json", cwd=folder, code=3).stdout)
    assert [row["question"] for row in rows] == [1, 2, 2, 3, 4, 4]
    assert ["error" in row for row in rows] == [True, False, False, True, False, False]
    assert (rows[0]["subject"], rows[0]["object"]) == ("Nobody", "?")
    run(*ask, "--out", "some.csv", cwd=folder, code=3)
    assert pl.read_csv(folder / "some.csv")["question"].to_list() == [2, 2, 4, 4]
    (folder / "none.tsv").write_text("Nobody\tmother\t?\nNoone\tmother\t?\n")
    done = run("predict", "run", "--questions", "none.tsv", cwd=folder, code=2)
    assert "none of the 2 questions can be asked; question 1: no entity is" in done.stderr


COMMANDS = {
    "compare": ["compare", "run", "--resamples", "100"],
    "evaluate": ["evaluate", "run"],
    "classify": ["evaluate", "run", "--classify"],
    "relation": ["evaluate", "run", "--by", "relation"],
    "valid": ["evaluate", "run", "--split", "valid"],
    "describe-model": ["describe-model", "run"],
    "describe": ["data", "describe", "families"],
    "list": ["data", "list"],
    "predict": ["predict", "run", "?", "born_in", "Karlsberg", "--known"],
    "discover": ["discover", "run", "--top", "5"],
    "similar": ["similar", "run", "--relations", "--least", "0"],
    "study": ["study", "families", "--sizes", "8", "--trials", "1", "--epochs", "1", "--dry-run"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_fit_the_window_and_cut_no_number(name: str, folder: Path) -> None:
    """At 60 and 80 columns every number is one that a pipe has, too."""

    def printed(columns: str) -> str:
        text = run(*COMMANDS[name], cwd=folder, columns=columns).stdout
        return re.sub(r"split, .* s\n", "", text)  # seconds differ

    piped = printed("")
    assert "\nleft out: " not in piped
    known = set(piped.split())
    for columns in (60, 80):
        text = printed(str(columns))
        table = [line for line in text.splitlines() if re.match(" [^ ]| +[^ ]+ *$", line)]
        assert len(table) > 1
        assert max(map(len, table)) <= columns
        numbers = set(re.findall(r"(?<!\S)[+-]?[0-9][0-9.,%]*(?!\S)", text))
        assert numbers <= known, numbers - known


def test_export_and_resume(folder: Path) -> None:
    files = json.loads(run("export", "run", "--json", cwd=folder).stdout)["files"]
    assert all((folder / file).is_file() for file in files)
    assert {Path(file).suffix for file in files} > {".parquet", ".safetensors"}
    one = run("export", "run", "--format", "parquet", "--out", "table", cwd=folder).stdout
    assert {Path(line).suffix for line in one.splitlines()} == {".parquet", ".safetensors"}
    assert json.loads(run("resume", "run", "--json", cwd=folder).stdout)["epochs"] == 3


def test_train_from_a_recipe_file(folder: Path) -> None:
    (folder / "recipe.toml").write_text(
        '[graph]\nsource = "families"\n[model]\nname = "complex"\nentity_dim = 6\n'
        "[train]\nepochs = 1\n"
    )
    done = run("train", "recipe.toml", "--seed", "3", "--json", cwd=folder)
    path = folder / json.loads(done.stdout)["run"]
    assert path.parent.name == "runs"
    text = (path / "recipe.toml").read_text()
    assert 'name = "complex"' in text
    assert "seed = 3" in text


def test_a_recipe_is_shown_and_means_the_same_as_a_file(folder: Path) -> None:
    shown = run("train", "families", "--model", "cp", "--show-recipe", cwd=folder).stdout
    (folder / "shown.toml").write_text(shown)
    assert run("train", "shown.toml", "--show-recipe", cwd=folder).stdout == shown
    document = json.loads(run("train", "shown.toml", "--show-recipe", "--json", cwd=folder).stdout)
    assert document["recipe"] == {"preset": "good", "settled": True}
    assert document["model"]["name"] == "cp"
    assert document["train"]["objective"] == "k_vs_all"
    done = run("train", "shown.toml", "--preset", "best", cwd=folder, code=2)
    assert "the recipe has every setting" in done.stderr


def test_a_recipe_takes_another_graph(folder: Path) -> None:
    (folder / "labels.tsv").write_text("a\tAnna\n")
    (folder / "for-families.toml").write_text(
        '[graph]\nsource = "families"\nlabels = "labels.tsv"\n'
        '[model]\nname = "distmult"\nentity_dim = 4\n[train]\nepochs = 1\nnegatives = 2\n'
    )
    (folder / "other.tsv").write_text("".join(f"a{i}\tto\ta{i * 3 % 8}\n" for i in range(8)))
    options = ["--graph", "other.tsv", "--out", "on-other"]
    run("train", "for-families.toml", *options, cwd=folder)
    text = (folder / "on-other" / "recipe.toml").read_text()
    assert 'source = "other.tsv"' in text
    assert 'name = "distmult"' in text
    assert "labels" not in text
    done = run("train", "families", "--graph", "other.tsv", cwd=folder, code=2)
    assert "families is a graph" in done.stderr
    done = run("search", "families", "--graph", "other.tsv", cwd=folder, code=2)
    assert "families is a graph" in done.stderr


def test_train_on_a_file_of_triples(folder: Path) -> None:
    lines = [f"person {i}\tknows\tperson {(i * 7 + 1) % 40}" for i in range(40)]
    lines += [f"person {i}\tlikes\tperson {(i * 3 + 2) % 40}" for i in range(40)]
    (folder / "mine.tsv").write_text("\n".join(lines) + "\n")
    path = json.loads(run("train", "mine.tsv", *SETTINGS, "--json", cwd=folder).stdout)["run"]
    rows = json.loads(run("predict", path, "person 3", "knows", "?", "--json", cwd=folder).stdout)
    assert rows[0]["answer"].startswith("person ")


def test_train_without_usable_validation_triples(folder: Path) -> None:
    (folder / "splits").mkdir()
    lines = [f"person {i}\tknows\tperson {(i * 7 + 1) % 30}\n" for i in range(30)]
    (folder / "splits" / "train.tsv").write_text("".join(lines[:20]))
    (folder / "splits" / "valid.tsv").write_text("stranger\tknows\tperson 1\n")
    (folder / "splits" / "test.tsv").write_text("".join(lines[20:]))
    assert "no validation triples" in run("train", "splits", *SETTINGS, cwd=folder).stdout


def test_data_commands(folder: Path) -> None:
    names = [
        entry["name"] for entry in json.loads(run("data", "list", "--json", cwd=folder).stdout)
    ]
    assert names[:3] == ["families", "fb15k-237", "wn18rr"]
    assert "on this machine" in run("data", "list", cwd=folder).stdout
    description = json.loads(run("data", "describe", "families", "--json", cwd=folder).stdout)
    assert description["entities"] == 442
    assert "cousin" in run("data", "describe", "families", cwd=folder).stdout


def test_data_fetch_tells_the_folder(tmp_path: Path) -> None:
    with patch("reltucker.graph.catalog.fetch", lambda name, **_: Path("home") / name):
        done = run("data", "fetch", "wn18rr", "--json", cwd=tmp_path)
        assert json.loads(done.stdout) == {"name": "wn18rr", "folder": "home/wn18rr"}
        done = run("data", "fetch", "wn18rr", cwd=tmp_path)
        assert done.stdout == "wn18rr is in home/wn18rr\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "nothing.tsv"], "nothing.tsv"),
        (["train", "familes"], "families"),
        (["train", "fb15k-237"], "reltucker data fetch fb15k-237"),
        (
            ["train", "families", "--model", "complx"],
            "there is no model 'complx'; did you mean 'complex'?",
        ),
        (["train", "families", "--set", "model.name=complx"], "did you mean 'complex'"),
        (["train", "families", "--set", "train.epoch=3"], "did you mean 'train.epochs'"),
        (["train", "families", "--model", "complex", "--entity-dim", "7"], "even"),
        (["train", "families", "--out", "run"], "holds a run already"),
        (
            ["train", "families", "--model", "drt", "--set", "core.scalar_share=0.5"],
            "drt has no such option",
        ),
        (["train", "families", "--set", "core.scalar_share=2"], "core.scalar_share"),
        (["train", "families", "--entity-dim", "9999", "--relation-dim", "9999"], "GiB of memory"),
        (["evaluate", "nowhere"], "not a run folder"),
        (["evaluate", "run", "--split", "tset"], "'tset' is not one of 'train', 'valid', 'test'"),
        (["evaluate", "run", "--sample", "0"], "--sample"),
        (["evaluate"], "Missing argument 'RUN'"),
        (["evaluate", "run", "--spilt", "test"], "--split"),
        (["resume", "nowhere"], "not a run folder"),
        (["describe-model", "nowhere"], "not a run folder"),
        (["inspect", "run", "--relation", "mothr"], "did you mean 'mother'"),
        (["export", "run", "--format", "csv"], "'csv' is not one of 'parquet', 'word2vec'"),
        (["predict", "run", "Nobody Known", "mother", "?"], "no entity is called"),
        (["predict", "run", "a", "b"], "three parts"),
        (["predict", "run", "a", "b", "?", "--questions", "q.tsv"], "not both"),
        (["predict", "run", "a", "mother", "?", "--out", "x.doc"], ".parquet"),
        (["predict", "run", "?", "born_in", "Karlsberg", "--top", "0"], "at least one"),
        (["data", "fetch", "nothing"], "not in the catalog"),
        (["data", "describe", "."], "train"),
        (["compare", "run", "nowhere"], "not a run folder"),
        (["compare", "run", "--sparse", "rum"], "rum is not one of the runs"),
        (["compare", "run", "--relation", "mothr"], "did you mean 'mother'"),
        (["search", "nothing.tsv"], "nothing.tsv"),
        (["search", "families", "--sampler", "gpp"], "'gpp' is not one of"),
        (["study", "families", "--models", "complx"], "complx"),
        (["study", "families", "--dry-run", "--compare-only"], "--dry-run or --compare-only"),
        (["trian", "families"], "Did you mean 'train'?"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, folder: Path
) -> None:
    before = sorted(folder.rglob("*"))
    done = run(*arguments, cwd=folder, code=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_demo_that_cannot_write_says_so(folder: Path) -> None:
    done = run("demo", "--out", "run/recipe.toml", cwd=folder, code=2)
    assert done.stderr.splitlines()[-1].startswith("error: run/recipe.toml")


def test_a_mistake_ends_a_process_with_code_2(tmp_path: Path) -> None:
    done = reltucker("evaluate", "nowhere", "--json", cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: nowhere is not a run folder")


def test_output_into_a_closed_pipe_is_quiet(folder: Path) -> None:
    line = f"{' '.join(map(repr, COMMAND))} data describe families | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True)
    assert done.stdout.startswith("Triples of families")
    assert done.stderr == ""
