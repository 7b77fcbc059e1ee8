"""Texts from outside, made fit for a screen, a page, Markdown and LaTeX; the templates."""

import base64
import re

import jinja2

# XML 1.0 (so SVG) cannot write these, those from \x7f to \x9f steer a terminal, and the last turn
# the direction in which what follows is shown.
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
    # After the \\ that ends a row these would be read as its arguments.
    **{character: f"{{{character}}}" for character in "[]*"},
    # Two of them would become a curly quote.
    **{character: f"{character}{{}}" for character in "`'"},
    "–": r"\textendash{}",
    "…": r"\ldots{}",
}


def printable(text: str) -> str:
    """`text` with every character that XML, HTML or UTF-8 cannot carry, or that steers how the rest
    is shown, replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Printable, and on one line."""
    return re.sub(r"\s+", " ", printable(text))


def shorten(text: str, limit: int) -> str:
    """`text` cut in its middle to `limit` characters: names often differ only at their ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return text[: limit - 1 - tail] + "…" + text[len(text) - tail :]


def markdown(text: str) -> str:
    """`text` with the signs of Markdown escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&$!])", r"\\\1", text)


def spreadsheet(value: object) -> object:
    """A cell of CSV; a text that a spreadsheet would run as a formula is marked as a text."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


def latex(text: str) -> str:
    """`text` with the signs of LaTeX escaped."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub("-(?=-)", "-{}", escaped)


TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("reltucker.report"),
    autoescape=jinja2.select_autoescape(["html"]),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
"""The files in templates/; what goes into one that ends with .html is escaped by Jinja."""

TEMPLATES.filters |= {
    "base64": lambda text: base64.b64encode(text.encode("utf-8")).decode("ascii"),
    "latex": latex,
    "markdown": markdown,
    "printable": printable,
    "shorten": shorten,
}
TEMPLATES.globals["zip"] = zip
