"""Checksums of files for which none was published: kept when a file first comes, or given."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reltucker.atomic import write_text
from reltucker.errors import GraphError

SHA256 = re.compile(r"[0-9a-f]{64}")


class Pins(NamedTuple):
    """SHA-256 by the name of a file: `published`, `given` by the user, and `kept` in a file of
    lines as sha256sum writes them."""

    path: Path
    published: Mapping[str, str]
    given: Mapping[str, str]
    kept: Mapping[str, str]

    @classmethod
    def read(
        cls, path: Path, published: Mapping[str, str | None], given: Sequence[str] = ()
    ) -> "Pins":
        """Those of the files of a graph; what contradicts itself is refused."""
        known = {name: digest for name, digest in published.items() if digest}
        pins = cls(path, known, _parsed(given, published), read_pins(path))
        for name, digest in pins.given.items():
            pins.check(name, digest, f"the file that --sha256 names for {name}")
        return pins

    def check(self, name: str, found: str, origin: str) -> None:
        """Refuse a file with another checksum than those that are known of it."""
        what = {
            "the published archive": (self.published, ""),
            "the file that --sha256 names": (self.given, ""),
            "what came before": (
                self.kept,
                f"; if the new one is to be trusted, take the old one out of {self.path}",
            ),
        }
        for wanted, (known, advice) in what.items():
            if (digest := known.get(name, found)) != found:
                raise GraphError(
                    f"{origin} is not {wanted}: its SHA-256 is {found} instead of {digest}{advice}"
                )

    def keep(self, found: Mapping[str, str]) -> None:
        """Keep the checksums of files for which none was published."""
        kept = {**self.kept, **{n: d for n, d in found.items() if n not in self.published}}
        if kept != dict(self.kept):
            write_text(self.path, "".join(f"{digest}  {name}\n" for name, digest in kept.items()))


def read_pins(path: Path) -> dict[str, str]:
    """The checksums that a file keeps, by the names of files; none where there is no file."""
    if not path.is_file():
        return {}
    pins = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        if not SHA256.fullmatch(digest) or not name:
            raise GraphError(f"{path} is not a list of checksums; repair or delete it")
        pins[name] = digest
    return pins


def _parsed(given: Sequence[str], names: Collection[str]) -> dict[str, str]:
    parsed = {}
    for text in given:
        name, _, digest = text.rpartition("=")
        if not SHA256.fullmatch(digest.lower()):
            raise GraphError(
                f"--sha256 {text[:200]}: 64 hexadecimal digits are needed, after FILE= where there "
                "are several files"
            )
        if not name and len(names) == 1:
            (name,) = names
        if name not in names:
            raise GraphError(
                f"--sha256 {text[:200]}: write FILE=HEX, where FILE is one of {', '.join(names)}"
            )
        parsed[name] = digest.lower()
    return parsed
