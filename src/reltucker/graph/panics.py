"""What polars' threads print when they panic, kept from the user, who gets a sentence instead."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_panics() -> Iterator[None]:
    """Within it nothing comes to the standard error of the process: Rust writes there itself,
    before Python hears of the panic as an exception."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
