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
NO_AXE = "window.axe = { run: () => ({ violations: [] }) }"
FEW = {"resultTypes": ["violations"]}
CHARTS = ("entities", "relations", "core", "learning", "results", "calibration", "runs")
HIDDEN = """[...document.querySelectorAll("tbody th, tbody td")].filter((cell) => {
  const box = cell.getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth + 1 || !cell.checkVisibility();
}).length"""
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
        self.context.set_default_timeout(120_000)  # the machine may be busy
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

    def field(self, label: str) -> Any:
        return self.page.get_by_role("combobox", name=label, exact=True)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.text_content())


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> str | None:
    """The script of axe-core, from the tests' cache or else from npm, where that works."""
    cached = pytestconfig.rootpath / ".pytest_cache" / f"{AXE}.js"
    if not cached.is_file():
        if shutil.which("npm") is None:
            return None
        folder = tmp_path_factory.mktemp("axe")
        command = ["npm", "pack", AXE, "--silent", "--pack-destination", str(folder)]
        if subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode:
            return None
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
        ("ask", {"s": script, "o": hebrew}),
        ("ask", {"s": "nobody", "r": "r1"}),
        ("why", {"s": quotes, "r": "r2", "o": hebrew}),
        ("see", {"part": "around", "name": long}),
        *(("see", {"part": part}) for part in ("mixing", *CHARTS)),
        ("discover", {"top": "5"}),
        ("add", {}),
    ]


def test_every_view_passes_axe_in_light_and_dark_and_fits_a_phone(
    browser: Any, address: str, axe: str | None
) -> None:
    visit = Visit(browser, address, viewport={"width": 390, "height": 800}, color_scheme="light")
    page = visit.page
    session = visit.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": axe or NO_AXE})
    place = "html"
    for view, params in views():
        visit.go(view, **params)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        if params.get("part") in CHARTS:
            page.wait_for_selector(".chart canvas")
        for theme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            found = page.evaluate(
                "([place, options]) => axe.run(place, options)", [place, {**rules, **FEW}]
            )
            broken = {one["id"]: one["nodes"][0]["html"] for one in found["violations"]}
            assert not broken, (view, params, theme)
            page.click("#theme")
        for width in (390, 1920):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, (view, params, width)
            if width == 390:  # no column is out of sight
                assert page.evaluate(HIDDEN) == 0, (view, params)
        page.set_viewport_size({"width": 390, "height": 800})
        place = "main"  # what is around it stays the same
    assert page.evaluate("document.getElementsByTagName('script').length") == 1
    assert [text for text in visit.said if "422" not in text] == []  # nobody is not known
    if axe is None:
        pytest.skip(f"npm cannot fetch {AXE}; widths, colours and the console were looked at")


def test_one_asks_by_keyboard_goes_on_and_comes_back(browser: Any, address: str, run: Run) -> None:
    visit = Visit(browser, address, color_scheme="dark")
    page = visit.page
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    visit.field("Subject").fill("e2")
    page.wait_for_selector("[role=listbox]:not([aria-busy]) [role=option]")
    page.keyboard.press("ArrowDown")
    marked = page.locator("[role=option][aria-selected=true]")
    active = visit.field("Subject").get_attribute("aria-activedescendant")
    assert marked.get_attribute("id") == active
    page.keyboard.press("Enter")
    subject = visit.field("Subject").input_value()
    visit.field("Relation").fill("r1")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_selector("tbody tr")
    expected = run.predict(subject, "r1", known=True)
    assert page.locator("tbody th a").count() == len(expected) == 10
    assert expected["label"][0] in visit.text("tbody th a")
    badges = page.locator("tbody .badge").all_text_contents()
    assert badges == ["known" if known else "new" for known in expected["known"]]
    assert page.evaluate("document.activeElement.id") == "results"
    asked = page.url
    page.locator("tbody th a").first.click()
    page.wait_for_selector("svg.graph a")
    assert expected["label"][0] in visit.text("#results")
    assert page.locator(".edge.predicted").count() > 1  # one is the legend's
    page.go_back()
    page.wait_for_selector("tbody tr")
    assert page.url == asked
    page.goto("about:blank")
    page.goto(asked)  # as somebody else would who was sent the address
    page.wait_for_selector("tbody tr")
    assert visit.field("Subject").input_value() == subject
    page.get_by_role("link", name="Why?").first.click()
    page.wait_for_selector(".flow")
    assert page.locator("table").last.locator("tbody tr").count() > 0
    assert visit.said == []


def test_accepted_facts_are_saved_and_a_new_entity_is_asked_about(
    browser: Any, address: str
) -> None:
    visit = Visit(browser, address, accept_downloads=True)
    page = visit.page
    visit.go("discover", top="20")
    rows = page.locator("tbody tr")
    assert rows.count() == 20
    facts = [part.split(" · ") for part in rows.locator("th").all_text_contents()]
    rows.nth(0).get_by_text("Accept").click()
    rows.nth(1).get_by_text("Reject").click()
    page.locator("label:has-text('Show') select").select_option("rejected")
    assert rows.count() == 1
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save 1 accepted fact").click()
    triples = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert len(triples) == 1
    assert triples[0].split("\t")[1] == facts[0][1]

    visit.go("add")
    page.get_by_label("New name").fill("<b>somebody</b>")
    visit.field("Relation").first.fill("r1")
    visit.field("Known entity").first.fill("e9")
    visit.field("What do you want to know?").fill("r2")
    page.get_by_role("button", name="Add and ask").click()
    page.wait_for_selector("tbody tr")
    assert "<b>somebody</b> · r2 · ?" in visit.text("#results")
    assert rows.count() == 10
    assert visit.said == []


def test_what_goes_wrong_is_told_in_a_sentence(browser: Any, address: str) -> None:
    visit = Visit(browser, address)
    page = visit.page
    visit.go("ask", s="nobody", r="r1")
    assert "no entity is called 'nobody'" in visit.text("[role=alert]")
    page.route("**/predict", lambda route: route.abort())
    visit.go("ask", s="e8", r="r1")
    assert "Is `reltucker serve` still running?" in visit.text("[role=alert]")
    page.unroute("**/predict")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("tbody tr")

    def guarded(route: Any) -> None:
        allowed = route.request.headers.get("authorization") == "Bearer a token"
        refusal = {"status": 401, "json": {"detail": "give the token"}}
        _ = route.continue_() if allowed else route.fulfill(**refusal)

    page.route("**/api/**", guarded)
    page.reload()
    page.get_by_label("Token").fill("a token")
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("tbody tr")
    page.route("**/vega.js", lambda route: route.abort())
    visit.go("see", part="results")
    page.wait_for_selector("figure tbody tr")  # in place of the chart
    assert "cannot be loaded" in visit.text(".chart")
