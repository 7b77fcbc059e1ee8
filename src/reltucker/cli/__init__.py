"""The command line: one thin file for each command; no logic."""

import signal
import sys
import warnings
from types import FrameType

import typer

from reltucker.cli import (
    compare,
    data,
    demo,
    describe_model,
    evaluate,
    export,
    inspect,
    predict,
    resume,
    search,
    study,
    train,
)
from reltucker.errors import ReltuckerError

app = typer.Typer(
    name="reltucker",
    help="Learn the Relational Tucker decomposition of a knowledge graph; predict missing links.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.command)
app.add_typer(data.app, name="data")
app.command("train")(train.command)
app.command("resume")(resume.command)
app.command("search")(search.command)
app.command("study")(study.command)
app.command("evaluate")(evaluate.command)
app.command("describe-model")(describe_model.command)
app.command("inspect")(inspect.command)
app.command("compare")(compare.command)
app.command("predict")(predict.command)
app.command("export")(export.command)


class _StoppedError(Exception):
    """SIGINT (Ctrl-C) or SIGTERM arrived."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _StoppedError(number)


def main() -> None:
    """Run a command; a user's mistake is one sentence on standard error and exit code 2."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    warnings.formatwarning = _one_sentence
    try:
        app(standalone_mode=True)
    except ReltuckerError as error:
        _fail(f"error: {error}", 2)
    except OSError as error:
        _fail(f"error: {error.filename or 'file'}: {error.strerror or error}", 2)
    except (MemoryError, RuntimeError) as error:
        # torch tells of missing memory by a RuntimeError; any other one is a bug and shows itself.
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        _fail("error: out of memory; use smaller dimensions or a smaller batch", 2)
    except _StoppedError as stopped:
        for number in (signal.SIGINT, signal.SIGTERM):  # another one while Python ends is no news
            signal.signal(number, signal.SIG_IGN)
        advice = (
            "a training run goes on with `reltucker resume RUN`, a study or "
            "a search by the same command"
        )
        _fail(f"stopped; {advice}", 128 + stopped.args[0])


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)


def _one_sentence(message: Warning | str, *_: object, **__: object) -> str:
    return f"warning: {message}\n"


__all__ = ["app", "main"]
