"""A hook of the site: pages that stand in the project's root are put into it."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"README": "index", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog"}
LEADING_OUT = re.compile(rf"\]\((?:\.\./)?({'|'.join(PAGES)})\.md")


def on_files(files: Files, config: Any) -> Files:
    """Add them, with their links as they are seen from docs/."""
    for source, page in PAGES.items():
        text = (ROOT / f"{source}.md").read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, f"{page}.md", content=inside(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links from docs/ to these pages stay inside of the site."""
    return inside(markdown)


def inside(text: str) -> str:
    """A text with links to these pages as the site has them."""
    return LEADING_OUT.sub(lambda link: f"]({PAGES[link[1]]}.md", text)
