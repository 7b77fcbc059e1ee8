"""The files of the page, from the package, and Vega for its charts."""

import asyncio
import json
import sys
from importlib.resources import files

from reltucker.report.colors import MODELS

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def read_page() -> dict[str, tuple[bytes, str]]:
    """Content and type by the path of a request; index.html is `/`. The colours of models are those
    of all charts."""
    colors = f"export const MODELS = {json.dumps(MODELS)};\n"
    found = {"/models.js": (colors.encode(), KINDS["js"])}
    for file in files(__package__).joinpath("page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = (file.read_bytes(), kind)
    return found


class Vega:
    """Vega, Vega-Lite and Vega-Embed as one script. It is made when it is first asked for, which
    takes seconds: in another process, for it would hold the interpreter of this one."""

    code = "import vl_convert; open(1, 'w', encoding='utf-8').write(vl_convert.javascript_bundle())"

    def __init__(self) -> None:
        self._making: asyncio.Task[bytes] | None = None

    async def read(self) -> bytes:
        """The script; empty where it cannot be made."""
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", self.code, stdout=asyncio.subprocess.PIPE
        )
        script, _ = await process.communicate()
        return b"" if process.returncode else script
