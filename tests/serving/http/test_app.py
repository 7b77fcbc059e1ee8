"""Mistakes, limits and doors: what is told, what is refused, and what every reply carries."""

import asyncio
import json
import re
import time
from typing import Any

import pytest

from reltucker.report.colors import MODELS
from reltucker.serving.http import Limits, Predictor, make_app
from tests.serving.http.client import Client
from tests.serving.http.conftest import RUN

ASKED = {"subject": "e9", "relation": "r1"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "questions: Field required"),
        ({"questions": []}, "questions: List should have at least 1 item"),
        ({"questions": [ASKED], "top": 0}, "top: Input should be greater than or equal to 1"),
        ({"questions": [ASKED], "top": 10**30}, "top: Input should be less than or equal to 1000"),
        ({"questions": [ASKED], "top": "5"}, "top: Input should be a valid integer"),
        ({"questions": [ASKED], "other": 1}, "other: Extra inputs are not permitted"),
        ({"questions": [ASKED] * 1001}, "questions: List should have at most 1000 items"),
        ({"questions": [ASKED] * 200, "top": 1000}, "ask for at most 100,000 answers"),
        ({"questions": [{}]}, "question 1: ask for exactly one of subject, relation and object"),
        ({"questions": [{**ASKED, "subject": "x" * 20_001}]}, "questions.0.subject: String should"),
        ({"questions": [{**ASKED, "relation": None}]}, "question 1: ask for exactly one of"),
        ({"questions": [ASKED, {**ASKED, "relation": "r"}]}, "question 2: no relation is called"),
        (
            b'{"questions": [{"subject": "\\ud800"}]}',
            "questions.0.subject: Input should be a valid",
        ),
        (b'{"\\ud800": 1}', "Input should be a valid string"),
        (b'{"questions": NaN}', "questions: Input should be a valid list"),
        (b"{", "JSON decode error"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[" + b"9" * 100_000 + b"]", "cannot be read"),
    ],
)
def test_mistakes_are_told_in_a_sentence(client: Client, document: Any, message: str) -> None:
    reply = client.post(f"{RUN}/predict", document)
    assert reply.status in (400, 422)
    detail = reply.json()["detail"]
    assert message in detail
    assert len(detail) < 500


def test_an_unknown_run_and_an_unknown_path(client: Client) -> None:
    reply = client.get("/api/runs/..%2F..%2Fetc/epochs")
    assert reply.status == 404
    assert client.get("/api/runs/other").json()["detail"].startswith("no run is called 'other'")
    for path in ("/../../etc/passwd", "/page/index.html", "/docs", "/redoc", "//", "/%00"):
        assert client.get(path).status == 404, path
    assert client.runner.run(client.send("DELETE", "/api/runs")).status == 405


def test_every_reply_has_the_headers_of_a_careful_server(client: Client) -> None:
    for path in ("/", "/health", "/api/runs", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"


def test_models_have_the_colours_of_all_charts(client: Client) -> None:
    script = client.get("/models.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    written = script.body.decode().removeprefix("export const MODELS = ").rstrip(";\n")
    assert {name: tuple(pair) for name, pair in json.loads(written).items()} == dict(MODELS)
    assert client.get("/api/runs").json()[0]["model"] in MODELS


def test_the_page_loads_nothing_from_elsewhere(client: Client) -> None:
    text = client.get("/").body.decode()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", text)
    for address in re.findall(r'(?:src|href)="([^"#]+)"', text):
        assert client.get(f"/{address}").status == 200
    assert "://" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "", "127.0.0.1.evil.example"]
)
def test_only_names_of_this_machine_are_answered(client: Client, host: str) -> None:
    assert client.get("/api/runs", {"host": host}).status == 400
    for good in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert client.get("/api/runs", {"host": good}).status == 200


def test_pages_of_other_sites_are_not_answered(client: Client) -> None:
    for site in ("cross-site", "same-site"):
        assert client.get("/api/runs", {"sec-fetch-site": site}).status == 403
    assert client.get("/api/runs", {"sec-fetch-site": "same-origin"}).status == 200
    kind = {"content-type": "text/plain"}
    assert client.post(f"{RUN}/predict", {"questions": [ASKED]}, kind).status == 415


def test_a_token_is_needed_where_there_is_one(predictor: Predictor) -> None:
    token = "0123456789abcdef"
    with Client(make_app([predictor], token=token, local=False)) as client:
        for path in ("/api/runs", "/metrics", "/openapi.json"):
            for given in ("", "Bearer ", f"Basic {token}", f"Bearer {token[:-1]}", "Bearer \xff"):
                reply = client.get(path, {"authorization": given, "host": "far.example"})
                assert reply.status == 401
                assert reply.headers["www-authenticate"] == "Bearer"
            good = {"authorization": f"Bearer {token}", "host": "far.example"}
            assert client.get(path, good).status == 200
        assert client.get("/health").status == client.get("/").status == 200


def test_limits_on_size_number_and_time(predictor: Predictor) -> None:
    limits = Limits(body_bytes=100, requests=1, seconds=0.3)
    with Client(make_app([predictor], limits)) as client:
        assert client.post(f"{RUN}/predict", b" " * 101).status == 413
        lying = {"content-length": "5"}
        assert client.post(f"{RUN}/predict", b" " * 101, lying).status == 413
        assert client.post(f"{RUN}/predict", b"", {"content-length": "9" * 30}).status == 413
        assert client.post(f"{RUN}/predict", b"", {"content-length": "-1"}).status == 400

        async def two() -> Any:
            silent = client.send("POST", f"{RUN}/predict", b"", JSON, silent=True)
            return await asyncio.gather(silent, client.post_later(f"{RUN}/predict", b"{}"))

        first, second = client.runner.run(two())
        assert first.status == 408
        assert second.status == 429
        assert int(second.headers["retry-after"]) > 0


JSON = {"content-type": "application/json"}


def test_an_answer_that_takes_too_long_is_given_up(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Predictor, "answers", lambda *_: time.sleep(0.5))
    with Client(make_app([predictor], Limits(seconds=0.1))) as client:
        reply = client.post(f"{RUN}/predict", {"questions": [ASKED]})
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0


def test_a_bug_is_told_without_its_insides(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Predictor, "answers", broken)
    with Client(make_app([predictor])) as client:
        reply = client.post(f"{RUN}/predict", {"questions": [ASKED]})
        assert client.get("/health").status == 200
    assert reply.status == 500
    assert b"secret" not in reply.body
    assert "content-security-policy" in reply.headers
    assert "KeyError: 'secret'" in capsys.readouterr().err


def test_metrics_are_in_the_text_format_of_prometheus(client: Client) -> None:
    client.get(RUN)
    client.get('/odd"\n{path}')
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.body.decode().splitlines()
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [\d.]+')
    for line in lines:
        assert line.startswith("# TYPE ") or sample.fullmatch(line), line
    own = 'route="/api/runs/{run}",method="GET",status="200"}'
    assert any(line.startswith(f"reltucker_requests_total{{{own}") for line in lines)
    for name in ("bucket", "sum", "count"):
        assert any(line.startswith(f"reltucker_request_seconds_{name}") for line in lines)


def test_the_description_names_every_route_and_problem(client: Client) -> None:
    description = client.get("/openapi.json").json()
    assert description["openapi"].startswith("3.")
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert {"200", "413", "422", "429", "503"} <= set(operation["responses"]), path
    text = json.dumps(description)
    assert "HTTPValidationError" not in text
