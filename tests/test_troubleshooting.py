"""Every sentence that the page on troubleshooting quotes is one that the program can say."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
LEAST = 8
"""A sentence has at least one part without `...` that is so long."""


def quoted() -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("> ") for line in lines if line.startswith("> ")]


def template(node: ast.expr) -> str:
    """A literal with `...` for what is filled in: f-strings, sums of texts, and `{}`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return "..."


def templates(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            yield template(node).replace("{}", "...")


@functools.cache
def known() -> tuple[str, ...]:
    found: set[str] = set()
    for path in (ROOT / "src" / "reltucker").rglob("*.py"):
        found.update(templates(ast.parse(path.read_text(encoding="utf-8"))))
    return tuple(text for text in found if len(text) >= LEAST)


def parts(sentence: str) -> list[str]:
    return [part for part in sentence.split("...") if part.strip()]


def can_be_said(sentence: str) -> bool:
    """Whether all parts of the sentence stand in one literal of the program, in this order."""
    wanted = parts(sentence)
    if max(map(len, wanted)) < LEAST:
        return False
    pattern = re.compile(".*".join(map(re.escape, wanted)), re.DOTALL)
    return any(pattern.search(text) for text in known())


@pytest.mark.parametrize("sentence", quoted())
def test_the_program_can_say_it(sentence: str) -> None:
    assert can_be_said(sentence)


def test_the_page_has_many_sentences_and_none_twice() -> None:
    assert len(quoted()) >= 30
    assert len(quoted()) == len(set(quoted()))


def test_a_sentence_that_was_altered_by_a_word_is_found() -> None:
    sentence = "... has no train.* file; train, valid and test were looked for with the endings ..."
    assert can_be_said(sentence)
    assert not can_be_said(sentence.replace("looked", "searched"))
    assert not can_be_said(sentence.replace("no train.* file", "no train.* folder"))
    assert not can_be_said("the moon is full; wait for another night")
    assert not can_be_said("... is ...")


def test_parts_of_two_messages_are_no_sentence() -> None:
    one, other = "holds a run already", "is not a whole Parquet file"
    assert can_be_said(f"... {one}; ...")
    assert can_be_said(f"... {other}; ...")
    assert not can_be_said(f"... {one}; ... {other}")


def test_templates_hold_what_is_filled_in_as_dots() -> None:
    code = 'raise Error(f"{path} is " "empty; " + name + f" was {x!r:>3}")'
    assert "... is empty; ... was ..." in set(templates(ast.parse(code)))
