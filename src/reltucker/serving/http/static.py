"""The files of the page, from the package."""

from importlib.resources import files

import vl_convert

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


SNIPPET = "window.vegaEmbed = vegaEmbed;"

Files = dict[str, tuple[bytes, str]]
"""Content and type by the path of a request."""


def vega() -> Files:
    """The library for charts, bundled anew: that takes a second or two."""
    return {"/vega.js": (vl_convert.javascript_bundle(SNIPPET).encode(), KINDS["js"])}


def read_page() -> Files:
    """The page's own files; index.html is `/`."""
    found = {}
    for file in files(__package__).joinpath("page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = (file.read_bytes(), kind)
    return found
