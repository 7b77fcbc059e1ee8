"""A real process: many clients at once, its token, its end."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reltucker.errors import ReltuckerError
from reltucker.run import Run
from reltucker.serving.http import Address, read_token, serve
from reltucker.serving.http.predictor import name_runs
from tests.cli.test_commands import run as run_command
from tests.serving.http.conftest import RUN

TOKEN = "a token of some length"
COMMAND = [sys.executable, "-m", "reltucker", "serve"]


def started(*arguments: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """A server on a free port, and its address."""
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("serving at http://127.0.0.1:"), line + str(process.communicate()[1])
    return process, line.split()[2].removeprefix("http://").rstrip("/")


@pytest.fixture(scope="module")
def server(run: Run) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process, address = started(str(run.path), RELTUCKER_TOKEN=TOKEN)
    yield process, address
    process.kill()
    process.communicate()


def call(address: str, path: str, document: Any = None, token: str = TOKEN) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    body = None if document is None else json.dumps(document)
    connection.request("GET" if document is None else "POST", path, body, headers)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, json.loads(content)


def test_many_clients_at_once_get_the_answers_of_the_run(
    server: tuple[subprocess.Popen[str], str], run: Run
) -> None:
    _, address = server
    questions = [(f"e{n}", f"r{n % 4}", "?") for n in range(7, 30)]
    questions += [("?", f"r{n % 4}", f"e{n}") for n in range(7, 30)]
    expected = {question: run.predict(*question, top=4) for question in questions}

    def ask(question: tuple[str, ...]) -> None:
        asked = dict(zip(("subject", "relation", "object"), question, strict=True))
        status, found = call(address, f"{RUN}/predict", {"questions": [asked], "top": 4})
        assert status == 200
        (answers,) = found["answers"]
        frame = expected[question]
        assert [row["answer"] for row in answers] == frame["answer"].to_list()
        scores = [row["score"] for row in answers]
        assert scores == pytest.approx(frame["score"].to_list(), abs=1e-5)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, questions * 2))


def test_a_token_is_needed(server: tuple[subprocess.Popen[str], str]) -> None:
    _, address = server
    assert call(address, "/api/runs")[0] == 200
    assert call(address, "/api/runs", token="another one")[0] == 401


def test_a_taken_port_is_told(server: tuple[subprocess.Popen[str], str], run: Run) -> None:
    port = server[1].rpartition(":")[2]
    with pytest.raises(ReltuckerError, match=rf"port {port} of 127.0.0.1 cannot be used \(Address"):
        serve([run], Address(port=int(port)))


def test_a_signal_ends_it_in_order(server: tuple[subprocess.Popen[str], str]) -> None:
    process, address = server
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port))) as idle:
        idle.sendall(b"GET /hea")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert errors == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "other machines may ask only with a token"),
        (["--host", "no.such.name.invalid", "--token-file", "token"], "no such address"),
        (["--token-file", "short"], "a token has at least 16 printable ASCII characters"),
        (["--token-file", "nothing"], "nothing: No such file"),
        (["--tls-key", "token"], "give both --tls-certificate and --tls-key"),
        (["--tls-key", "token", "--tls-certificate", "gone.pem"], "gone.pem: there is no such"),
        (["--tls-key", "token", "--tls-certificate", "token"], "are no certificate and its key"),
        (["--port", "70000"], "less than or equal to 65535"),
    ],
)
def test_mistakes_are_told(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "short").write_text("secret")
    asked = ["--port", "0", *arguments]
    done = run_command("serve", str(run.path), *asked, cwd=tmp_path, code=2)
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_extra_a_sentence_tells_of_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = run_command("serve", str(run.path), cwd=tmp_path, code=2)
    assert done.stderr.startswith("error: `reltucker serve` needs the optional extra `serve`")


def test_tokens_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELTUCKER_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("RELTUCKER_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    (tmp_path / "binary").write_bytes(b"\xff" * 20)
    with pytest.raises(ReltuckerError, match="this is not text"):
        read_token(tmp_path / "binary")
    assert name_runs([Path("/a/x"), Path("/b/x"), Path("/")]) == ["x", "x-2", "run"]
    assert Address("::1").is_local
    assert not Address("192.0.2.1").is_local
