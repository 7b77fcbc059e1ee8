"""`reltucker resume`: go on with a training run that was stopped."""

from reltucker.cli import options
from reltucker.cli.train import report


def command(run: options.RunFolder, json: options.Json = False) -> None:
    """Go on with a training run that was stopped.

    The figures at the end are those of an unbroken run. A run that has ended stays as it is.

    Example: reltucker resume runs/mine
    """
    from reltucker.run import open_run

    report(open_run(run).resume(), json)
