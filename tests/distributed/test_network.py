"""Two machines, as two network namespaces with a link between them, where that is permitted:
RELTUCKER_NETWORK=1 pytest tests/distributed/test_network.py"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reltucker import Recipe, open_run, train
from tests.distributed.test_processes import figures, recipe, wait_for_epoch

NODES = ("reltucker-a", "reltucker-b")
LINKS = ("rt-a", "rt-b")
ADDRESSES = ("10.211.77.1", "10.211.77.2")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def remove() -> None:
    for node in NODES:
        subprocess.run(["ip", "netns", "delete", node], capture_output=True, check=False)


@pytest.fixture
def machines() -> Iterator[None]:
    if "RELTUCKER_NETWORK" not in os.environ:
        pytest.skip("changes the network: set RELTUCKER_NETWORK=1 to try two machines")
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need the program ip and the rights of root")
    remove()
    try:
        for node in NODES:
            ip("netns", "add", node)
        ip("link", "add", LINKS[0], "netns", NODES[0], "type", "veth", "peer", LINKS[1])
        ip("link", "set", LINKS[1], "netns", NODES[1])
        for node, link, address in zip(NODES, LINKS, ADDRESSES, strict=True):
            ip("-n", node, "address", "add", f"{address}/24", "dev", link)
            ip("-n", node, "link", "set", "lo", "up")
            ip("-n", node, "link", "set", link, "up")
    except subprocess.CalledProcessError as error:
        remove()
        pytest.skip(f"network namespaces are not permitted: {error.stderr.decode()[:200]}")
    yield
    remove()


def torchrun(number: int, said: Path, *arguments: object) -> subprocess.Popen[Any]:
    """Start the launcher of a machine."""
    rendezvous = f"is_host={int(number == 0)},last_call_timeout=3,join_timeout=120"
    launcher = ["-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"]
    launcher += ["--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-id", "test"]
    launcher += ["--rdzv-endpoint", f"{ADDRESSES[0]}:29417", "--rdzv-conf", rendezvous]
    launcher += ["--local-addr", ADDRESSES[number], "-m", "reltucker"]
    environment = {"GLOO_SOCKET_IFNAME": LINKS[number], "OMP_NUM_THREADS": "1"}
    command = ["ip", "netns", "exec", NODES[number], sys.executable, *launcher]
    with open(said, "w") as file:
        return subprocess.Popen(
            [*command, *map(str, arguments)],
            stdout=file,
            stderr=file,
            env={**os.environ, **environment, "NUMBA_NUM_THREADS": "1"},
        )


def test_a_machine_is_lost_and_the_other_goes_on_alone(machines: None, tmp_path: Path) -> None:
    path = recipe(tmp_path, "k_vs_all", epochs=400, patience=5)
    run, said = tmp_path / "run", [tmp_path / "said-a", tmp_path / "said-b"]
    nodes = [torchrun(n, said[n], "train", path, "--out", run) for n in (0, 1)]
    try:
        wait_for_epoch(run, 3, nodes[0])
        ip("-n", NODES[1], "link", "set", LINKS[1], "down")
        time.sleep(1)
        until = len(open_run(run).epochs()) // 2 * 2 + 4  # every other epoch is validated
        wait_for_epoch(run, until, nodes[0])
        assert "process 0 of 2 got no answer from the others" in said[0].read_text()
        # What came out is what one process gets, up to the order of sums.
        alone = train(
            "families",
            Recipe.load(path).with_values({"train.epochs": until}),
            out=tmp_path / "alone",
            progress=False,
        )
        expected = figures(alone.path)
        assert figures(run)[: len(expected)] == pytest.approx(expected, abs=5e-3)
    finally:
        for node in nodes:
            node.kill()
            node.wait()
        subprocess.run(["pkill", "-9", "-f", str(run)], check=False)
