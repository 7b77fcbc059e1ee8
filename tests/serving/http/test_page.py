"""The page in a real browser, with names that hold what names may hold."""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from reltucker.run import Run
from tests.serving.http.conftest import HOSTILE
from tests.serving.http.test_server import started

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXE = "axe-core@4.10.3"
PARTS = (
    "around entities relations mixing core learning results calibration runs".split()  # noqa: SIM905
)
SETTLED = "body:not(:has([aria-busy])) main h1"


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    process, address = started(str(run.path))
    yield f"http://{address}/"
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"there is no browser here ({', '.join(BROWSERS)})")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page with what its console says."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.address = address
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.goto(address)
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_selector(SETTLED)

    def go(self, view: str, **params: str) -> None:
        self.page.evaluate("hash => { location.hash = hash }", f"#/{view}?{urlencode(params)}")
        self.page.wait_for_selector(f"nav a[aria-current][data-view={view}]")
        self.page.wait_for_timeout(30)  # the address has changed, the view may not have yet
        self.settle()

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.text_content())


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> str:
    """The script of axe-core, from the tests' cache or else from npm."""
    cached = pytestconfig.rootpath / ".pytest_cache" / f"{AXE}.js"
    if not cached.is_file():
        if shutil.which("npm") is None:
            pytest.skip("axe-core is not here, and there is no npm to fetch it")
        folder = tmp_path_factory.mktemp("axe")
        command = ["npm", "pack", AXE, "--silent", "--pack-destination", str(folder)]
        if subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode:
            pytest.skip(f"npm could not fetch {AXE}")
        (packed,) = folder.glob("*.tgz")
        with tarfile.open(packed) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            cached.parent.mkdir(exist_ok=True)
            cached.write_bytes(script.read())
    return cached.read_text(encoding="utf-8")


def views() -> list[tuple[str, dict[str, str]]]:
    """Every view, with names that a careless page would stumble over."""
    script, quotes, hebrew, _, long, *_ = HOSTILE
    return [
        ("ask", {}),
        ("ask", {"s": script, "r": "r1"}),
        ("ask", {"s": long}),
        ("ask", {"s": script, "o": hebrew}),
        ("ask", {"s": "nobody", "r": "r1"}),
        ("why", {"s": quotes, "r": "r2", "o": hebrew}),
        *(("see", {"part": part}) for part in PARTS),
        ("discover", {"top": "20"}),
        ("add", {}),
    ]


def test_every_view_passes_axe_in_light_and_dark_and_fits_a_phone(
    browser: Any, address: str, axe: str
) -> None:
    visit = Visit(browser, address, viewport={"width": 390, "height": 800}, color_scheme="light")
    page = visit.page
    session = visit.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": axe})
    for view, params in views():
        visit.go(view, **params)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            found = page.evaluate("options => axe.run(document, options)", rules)
            broken = {one["id"]: one["nodes"][0]["html"] for one in found["violations"]}
            assert not broken, (view, params, theme)
            page.click("#theme")
        for width in (390, 1920):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, (view, params, width)
        page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.getElementsByTagName('script').length") == 1
