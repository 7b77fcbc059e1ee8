"""The command line: one thin file for each command; no logic."""

import signal
import sys
import warnings
from types import FrameType
from typing import Annotated, NoReturn

import typer

from reltucker import __version__
from reltucker.cli import (
    add,
    calibrate,
    compare,
    data,
    demo,
    describe_model,
    discover,
    evaluate,
    export,
    inspect,
    merge,
    predict,
    resume,
    score,
    search,
    serve,
    similar,
    study,
    train,
    verify,
    why,
)
from reltucker.cli.processes import speaks
from reltucker.errors import PeersError, ReltuckerError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("demo")(demo.command)
app.add_typer(data.app, name="data")
app.command("train")(train.command)
app.command("resume")(resume.command)
app.command("verify")(verify.command)
app.command("merge")(merge.command)
app.command("add")(add.command)
app.command("search")(search.command)
app.command("study")(study.command)
app.command("evaluate")(evaluate.command)
app.command("describe-model")(describe_model.command)
app.command("inspect")(inspect.command)
app.command("compare")(compare.command)
app.command("predict")(predict.command)
app.command("score")(score.command)
app.command("calibrate")(calibrate.command)
app.command("discover")(discover.command)
app.command("similar")(similar.command)
app.command("why")(why.command)
app.command("export")(export.command)
app.command("serve")(serve.command)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"reltucker {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learn the Relational Tucker decomposition of a knowledge graph; predict missing links.

    `reltucker COMMAND --help` explains a command and shows an example; begin with `reltucker demo`.
    """


class _Stopped(BaseException):
    """SIGINT (Ctrl-C) or SIGTERM arrived; no `except Exception` on the way may take it."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped(number)


def main() -> NoReturn:
    """Run a command; a user's mistake is one sentence on standard error and exit code 2."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        sys.exit(app(prog_name="reltucker", standalone_mode=False))
    except PeersError as error:
        _fail(f"error: {error}", 1)  # no mistake of the user's: whoever started us may try again
    except ReltuckerError as error:
        _fail(f"error: {error}", 2)
    except typer.TyperException as error:  # with no command at all, the message is the help
        text = error.format_message().replace("Value error, ", "")
        _fail(text if text.startswith("Usage:") else f"error: {text}", error.exit_code)
    except OSError as error:
        _fail(f"error: {error.filename or 'file'}: {error.strerror or error}", 2)
    except (MemoryError, RuntimeError) as error:
        # torch tells of missing memory by a RuntimeError; any other one is a bug and shows itself.
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        _fail("error: out of memory; use smaller dimensions or a smaller batch", 2)
    except _Stopped as stopped:
        for number in (signal.SIGINT, signal.SIGTERM):  # another one while Python ends is no news
            signal.signal(number, signal.SIG_IGN)
        notes = getattr(stopped, "__notes__", [])
        _fail("; ".join(["stopped", *notes]), 128 + stopped.args[0])


def _fail(message: str, code: int) -> NoReturn:
    from reltucker.report.texts import printable  # names of a graph may steer a terminal

    if speaks():
        print(printable(message), file=sys.stderr)
    sys.exit(code)


__all__ = ["app", "main"]
