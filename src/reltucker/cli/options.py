"""Arguments and options that several commands share, each described once."""

import re
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from reltucker import choices

GRAPH = "A catalog name, or a file or folder of triples"

RunFolder = Annotated[Path, Argument(metavar="RUN", help="The run folder")]
Graph = Annotated[str, Argument(metavar="GRAPH", help=GRAPH)]
Json = Annotated[bool, Option("--json", help="Print one JSON document and nothing else")]


def _models(incomplete: str) -> list[str]:
    """For completion alone: help does not wait for torch."""
    from reltucker.model import CORES

    return [name for name in CORES if name.startswith(incomplete)]


_MODEL = "The core, such as complex or srt (docs/family.md has all)"
Model = Annotated[str | None, Option(help=_MODEL, show_default="drt", autocompletion=_models)]
PresetModel = Annotated[
    str | None, Option(help=_MODEL, show_default="the preset's", autocompletion=_models)
]
Preset = Annotated[
    choices.PresetName | None,
    Option(
        help="Who chooses what is not set, from the graph's sizes",
        show_default="good; none for a recipe",
    ),
]
OtherGraph = Annotated[
    str | None,
    Option("--graph", metavar="GRAPH", help="Another graph", show_default="the recipe's"),
]
_EPOCHS = "At most so many epochs"
Epochs = Annotated[int | None, Option(help=_EPOCHS, show_default="200")]
PresetEpochs = Annotated[int | None, Option(help=_EPOCHS, show_default="the preset's")]
Labels = Annotated[
    str | None,
    Option(metavar="FILE", help="A table of (id, name), for display", show_default="the graph's"),
]
Columns = Annotated[
    str | None,
    Option(
        metavar="A,B,C",
        help="Their order, as relation,subject,object, or names or numbers of those that hold "
        "subject, relation and object",
        show_default="by their names, or the first three",
    ),
]
MaxMemory = Annotated[
    str | None,
    Option(
        metavar="LIMIT",
        help="Refuse a graph that takes more: a share of the machine's memory, or such as 8GB",
        show_default="50%",
    ),
]
RunLabels = Annotated[
    Path | None,
    Option(
        "--labels",
        metavar="FILE",
        help="A table of (id, name), or RDF labels",
        show_default="the run's",
    ),
]
Language = Annotated[str, Option(metavar="TAG", help="Of labels that come from RDF")]
FixedSettings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting that is not searched; repeatable",
        show_default="the recipe's",
    ),
]
Split = Annotated[choices.SplitName, Option(help="Which triples to rank")]
Protocol = Annotated[choices.Protocol, Option(help="The protocol of the figures that come first")]
Relations = Annotated[
    list[str] | None,
    Option("--relation", help="A relation to draw; repeatable", show_default="the most frequent"),
]
Answers = Annotated[
    Path | None,
    Option(
        "--out",
        help="Write the answers to this .tsv, .csv or .parquet file",
        show_default="a table on the screen",
    ),
]
Workers = Annotated[int, Option(min=1, help="Processes on this machine")]

Processes = Annotated[
    int | None,
    Option(
        min=1,
        help="Processes on this machine that share the rows of E; torchrun starts them",
        show_default="1",
    ),
]


def folder_name(text: str) -> str:
    """`text` as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, by dotted key, whose options were given."""
    return {key: value for key, value in settings.items() if value is not None}
