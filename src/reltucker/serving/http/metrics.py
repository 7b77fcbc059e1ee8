"""Counts and times of requests, as Prometheus reads them."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends, in seconds."""


@dataclass(eq=False)
class Metrics:
    """What the server has done since its start. Routes are counted by their pattern, so that there
    are few of them whatever is requested."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    buckets: dict[str, list[int]] = field(default_factory=dict)
    seconds: Counter[str] = field(default_factory=Counter)
    active: int = 0
    questions: int = 0
    batches: int = 0

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request has ended."""
        self.requests[route, method, status] += 1
        counts = self.buckets.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]

    def text(self) -> str:
        """Prometheus' text format, version 0.0.4."""
        lines = ["# TYPE reltucker_requests_total counter"]
        for (route, method, status), count in sorted(self.requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            lines.append(f"reltucker_requests_total{{{labels}}} {count}")
        lines.append("# TYPE reltucker_request_seconds histogram")
        for route, counts in sorted(self.buckets.items()):
            total = 0
            for end, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
                total += count
                labels = f'route="{route}",le="{end}"'
                lines.append(f"reltucker_request_seconds_bucket{{{labels}}} {total}")
            lines.append(
                f'reltucker_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}'
            )
            lines.append(f'reltucker_request_seconds_count{{route="{route}"}} {total}')
        for name, kind, value in (
            ("active_requests", "gauge", self.active),
            ("questions_total", "counter", self.questions),
            ("batches_total", "counter", self.batches),
        ):
            lines += [f"# TYPE reltucker_{name} {kind}", f"reltucker_{name} {value}"]
        return "\n".join(lines) + "\n"
