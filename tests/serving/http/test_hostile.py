"""Requests that nobody should send: whatever comes, the server does not break."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_from_bytes

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from reltucker.serving.http import Limits, Predictor, make_app
from tests.serving.http.client import Client, Reply
from tests.serving.http.conftest import HOSTILE, RUN

REQUESTS = 10_000
TOGETHER = 100
EXAMPLES = 3
"""Requests by schemathesis, right and wrong ones each, to every route."""

Json = Any
Draw = random.Random

TEXTS = [
    *HOSTILE,
    "e9",
    "r0",
    "r1",
    "?",
    "",
    " ",
    "\ud800",
    "e9\ud800",
    "\uffff",
    "%00",
    "-1",
    "NaN",
    "e" * 20_001,
    "Entity 7",
    "'; DROP TABLE runs; --",
    "{{7*7}}",
    "\r\nset-cookie: a=b",
]
NUMBERS = [0, 1, -1, 3, 10, 1000, 1001, 2**31, 2**63, 10**400, 0.5, 1e308, -0.0, True, False]
RAW = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b"NaN",
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"9" * 5_000,
    b'"\\ud800"',
    b'{"questions":[{"subject":"\\udc00"}]}',
    b'{"top":1e999}',
    b'{"questions":[],"questions":{}}',
    b"\x00" * 100,
    b"\xef\xbb\xbf{}",
]
FIELDS = ["questions", "triples", "top", "known", "held_out", "subject", "relation", "object"]
FIELDS += ["in_range", "among", "where", "relations", "entities", "min_probability", "", "\ud800"]


def value(draw: Draw, depth: int = 0) -> Json:
    choice = draw.randrange(7 if depth < 4 else 4)
    if choice < 2:
        return draw.choice(TEXTS)
    if choice == 2:
        return draw.choice(NUMBERS)
    if choice == 3:
        return None
    if choice == 4:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(FIELDS): value(draw, depth + 1) for _ in range(draw.randrange(4))}


def nearly_right(draw: Draw) -> Json:
    """A body as it should be, with some part of it spoiled."""

    def text(good: list[str]) -> Json:
        return draw.choice(good) if draw.random() < 0.6 else value(draw, 3)

    subject, object_ = text(["e9", "e10"]), text(["?", "e11", HOSTILE[0]])
    triple = [subject, text(["r0", "r1"]), object_]
    question = dict(zip(("subject", "relation", "object"), triple, strict=True))
    body = {"questions": [question], "triples": [triple], **question}
    kept = draw.sample(sorted(body), draw.randrange(1, 4))
    document = {key: body[key] for key in kept}
    for key in draw.sample(FIELDS[2:], draw.randrange(3)):
        document[key] = value(draw, 2)
    return document


def body(draw: Draw) -> bytes:
    kind = draw.random()
    if kind < 0.15:
        return draw.choice(RAW)
    if kind < 0.2:
        return draw.randbytes(draw.randrange(200))
    document = value(draw) if kind < 0.5 else nearly_right(draw)
    return json.dumps(document).encode()


def quoted(draw: Draw) -> str:
    text = draw.choice(TEXTS)
    if draw.random() < 0.1:
        return draw.choice(["%", "%zz", "%ff%fe", "+", "&", "a=b", "%00", "%ed%a0%80"])
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"))


def request(draw: Draw, routes: list[tuple[str, str]]) -> tuple[str, str, bytes, dict[str, str]]:
    """Method, target, body and headers."""
    method, path = draw.choice(routes)
    run = "run" if draw.random() < 0.9 else quoted(draw)
    target = path.replace("{run}", run) if draw.random() < 0.95 else f"/{quoted(draw)}"
    keys = ["name", "prefix", "relation", "kind", "limit", "known", "predicted", "top", "by"]
    query = "&".join(
        f"{draw.choice(keys)}={quoted(draw)}" for _ in range(draw.choice([0, 1, 1, 2, 5]))
    )
    if draw.random() < 0.1:
        method = draw.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "TRACE", "\x00"])
    headers = {"content-type": "application/json"}
    for key, values in {
        "content-type": ["", "text/plain", "application/json; charset=\xff", "a" * 5_000],
        "content-length": ["-1", "1e3", "9" * 40, "\xb2"],
        "host": ["evil.example", "[", "[::1", "\xff", ":", "127.0.0.1:99999999"],
        "authorization": ["Bearer", "Bearer \xff", "\x00"],
        "accept": ["image/png", ";;;"],
        "expect": ["100-continue"],
    }.items():
        if draw.random() < 0.04:
            headers[key] = draw.choice(values)
    return method, f"{target}?{query}", body(draw), headers


def send_all(client: Client, make: Callable[[], Any], count: int) -> list[tuple[Any, Reply]]:
    async def some(requests: list[Any]) -> list[Reply]:
        return await asyncio.gather(
            *(client.send(m, target, content, headers) for m, target, content, headers in requests)
        )

    found = []
    for begin in range(0, count, TOGETHER):
        requests = [make() for _ in range(min(TOGETHER, count - begin))]
        found += zip(requests, client.runner.run(some(requests)), strict=True)
    return found


def test_ten_thousand_hostile_requests(predictor: Predictor) -> None:
    limits = Limits(requests=TOGETHER, body_bytes=100_000)
    with Client(make_app([predictor], limits)) as client:
        paths = client.get("/openapi.json").json()["paths"]
        routes = [(method.upper(), path) for path in sorted(paths) for method in paths[path]]
        # What computes is asked more often than what is only read.
        routes += [route for route in routes if route[0] == "POST"] * 2
        draw = random.Random(0)
        found = send_all(client, lambda: request(draw, routes), REQUESTS)
        after = client.post(f"{RUN}/predict", {"questions": [{"subject": "e9", "relation": "r1"}]})
    assert after.status == 200
    counts = Counter(reply.status for _, reply in found)
    for sent, reply in found:
        assert 200 <= reply.status < 500, sent
        assert "\n" not in "".join(reply.headers.values())
        if reply.status >= 400 and sent[0] != "HEAD":
            detail = reply.json()["detail"]
            assert detail
            assert "Traceback" not in detail
            assert len(detail) < 2_000
    assert set(counts) >= {200, 400, 404, 405, 413, 415, 422}
    assert min(counts[200], counts[422]) > REQUESTS / 10


def test_the_description_holds(predictor: Predictor) -> None:
    """Schemathesis draws requests from the description, right and wrong ones, and compares."""
    app = make_app([predictor], local=False)
    with Client(app):
        description = schemathesis.openapi.from_asgi("/openapi.json", app)
        operations = [found.ok() for found in description.get_all_operations()]
        assert len(operations) > 10
        for operation in operations:
            for mode in schemathesis.GenerationMode:
                _check(operation, mode)


def _check(operation: Any, mode: schemathesis.GenerationMode) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def validated(case: schemathesis.Case) -> None:
        case.call_and_validate()

    with contextlib.suppress(Unsatisfiable):  # nothing of it can be wrong
        validated()
