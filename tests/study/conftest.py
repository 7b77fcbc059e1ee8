"""What the tests of studies share: folders that take long to make, made once for all processes."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

MakeOnce = Callable[[str, Callable[[Path], Any]], Path]


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Fill a folder by a function, unless another process of the same test run has done so."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name: str, fill: Callable[[Path], Any]) -> Path:
        folder, sign = root / name, root / f"{name}.made"
        with FileLock(root / f"{name}.lock"):
            if not sign.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                sign.touch()
        return folder

    return made
