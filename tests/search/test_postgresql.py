"""One study on PostgreSQL: two searches as on two machines, several workers, one killed."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.trial import TrialState

from tests.search.test_killed import Search, check_all_done_once, process_of, wait_for

psycopg = pytest.importorskip("psycopg", reason="the PostgreSQL driver psycopg is not installed")


def binaries() -> Path:
    """The folder with initdb and postgres."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        pytest.skip("PostgreSQL is not on this machine (Debian: apt-get install postgresql)")
    return folders[-1].parent


def account() -> str | None:
    """PostgreSQL refuses to run as root: another account that exists, or None for this one."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    pytest.skip("PostgreSQL does not run as root, and there is no account postgres or nobody")


def wait_until_ready(address: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A PostgreSQL of the test's own."""
    folder, user, programs = Path(tempfile.mkdtemp(prefix="pg")), account(), binaries()
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync"],
        check=True,
        user=user,
        cwd=folder,
        capture_output=True,
    )
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-k", folder, "-h", "127.0.0.1", "-p", str(port)],
        user=user,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"postgresql://tester:secret@127.0.0.1:{port}/postgres"
        wait_until_ready(address, server)
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def test_machines_share_a_study_and_a_killed_worker_loses_nothing(
    url: str, graph_files: Path, tmp_path: Path
) -> None:
    options = ["--storage", url, "--trials", "3", "--workers"]
    with (
        Search(graph_files, tmp_path / "first", *options, "1") as first,
        Search(graph_files, tmp_path / "second", *options, "2") as second,
    ):
        process = first.start()
        victim = wait_for(first.running)[0]
        # Held until the other machine has begun, so that both have their share.
        os.kill(process_of(victim), signal.SIGSTOP)
        helper = second.start("--join")
        others = second.out / "trials"
        wait_for(lambda: [victim] if others.is_dir() and any(others.iterdir()) else [])
        os.kill(process_of(victim), signal.SIGKILL)
        result = first.finished(process)
        assert second.finished(helper) == {"joined": True}
        assert (result["trials"], result["failed"], result["pruned"]) == (3, 0, 0)
        assert result["seen"]["queries"] > 0
        trials = first.trials()
        assert trials[victim.number].state == TrialState.FAIL
        check_all_done_once(trials, [first.out, second.out], 3, result["best"]["number"])
        assert "secret" not in (first.out / "search.json").read_text()
