"""`reltucker resume`: go on with a training run that was stopped."""

from reltucker.cli import options
from reltucker.cli.processes import launched
from reltucker.cli.train import report


def command(
    run: options.RunFolder, processes: options.Processes = None, json: options.Json = False
) -> None:
    """Go on with a training run that was stopped.

    The figures at the end are those of an unbroken run. A run that has ended stays as it is. There
    may be more or fewer --processes than before.

    Example: reltucker resume runs/mine
    """
    from reltucker.run import open_run

    if not launched(processes):
        report(open_run(run).resume(), json)
