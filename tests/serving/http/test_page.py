"""The page in a real browser: it works by keyboard, shows names as text, and logs no error."""

import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from reltucker.run import Run
from tests.serving.http.conftest import HOSTILE
from tests.serving.http.test_server import started

playwright = pytest.importorskip(
    "playwright.sync_api", reason="the page is tested with playwright, which is not installed"
)


@pytest.fixture(scope="module")
def address(run: Run) -> Iterator[str]:
    process, address = started(str(run.path))
    yield f"http://{address}/"
    process.terminate()
    process.communicate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        pytest.skip("there is no chromium to test the page with")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 390, "height": 800})
    problems: list[str] = []

    def listen(message: Any) -> None:
        # The browser itself logs every reply that is a refusal.
        if message.type == "error" and "status of 422" not in message.text:
            problems.append(message.text)

    opened.on("console", listen)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(address)
    yield opened
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.close()
    assert problems == []


def field(page: Any, name: str) -> Any:
    return page.get_by_role("combobox", name=name, exact=True)


def test_a_question_by_keyboard_and_back(page: Any, run: Run) -> None:
    field(page, "Subject").focus()
    page.keyboard.type("<scr")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert field(page, "Subject").input_value() == HOSTILE[0]
    field(page, "Relation").fill("r1")
    page.keyboard.press("Enter")
    page.locator("tbody tr").first.wait_for()
    expected = run.predict(HOSTILE[0], "r1", in_range=True)["label"].to_list()
    shown = page.locator("tbody td:nth-child(2)").all_inner_texts()
    assert [text.rstrip("…") for text in shown] == [label[:200] for label in expected]
    question = page.url
    page.locator("tbody td:nth-child(2) a").first.click()
    page.get_by_text("Known facts").first.wait_for()
    page.go_back()
    page.get_by_text("Answers to").first.wait_for()
    assert page.url == question
    page.get_by_role("link", name="Why").first.click()
    page.get_by_role("heading", name="The score, part by part").wait_for()


def test_facts_are_accepted_and_saved(page: Any) -> None:
    page.get_by_role("link", name="Discover").click()
    page.get_by_role("button", name="Look for facts").click()
    page.get_by_role("button", name="accept fact 1", exact=True).click()
    with page.expect_download() as saving:
        page.get_by_text("Save 1 accepted").click()
    assert len(saving.value.path().read_text().rstrip("\n").split("\t")) == 3


def test_a_new_entity_is_asked_about(page: Any) -> None:
    page.get_by_role("link", name="Add", exact=True).click()
    page.get_by_label("Name of the new entity").fill('<img src=x onerror="alert(1)">')
    field(page, "Relation 1").fill("r0")
    field(page, "Entity 1").fill("e9")
    page.get_by_role("combobox", name="What to ask").fill("r1")
    page.get_by_role("button", name="Ask").click()
    page.locator("tbody tr").first.wait_for()


def test_what_was_learned_is_drawn(page: Any, address: str) -> None:
    page.goto(f"{address}?view=see")
    page.get_by_role("heading", name="Where the core is dense").wait_for()
    for caption in ("Loss", "Probabilities that were said", "M of r", "most frequent entities by"):
        page.locator("figure", has_text=caption).locator("canvas").wait_for()
    page.goto(f"{address}?view=about&name={quote(HOSTILE[2])}")
    page.get_by_role("heading", name="Entity 1", exact=True).wait_for()
    page.get_by_text(HOSTILE[2], exact=True).first.wait_for()
    before = page.url
    page.locator("svg.around a").first.click()
    page.get_by_text("Known facts").first.wait_for()
    assert page.url != before


def test_a_mistake_is_shown(page: Any, address: str) -> None:
    page.goto(f"{address}?view=ask&subject=nobody&relation=r1&any=1")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "no entity is called 'nobody'" in alert.inner_text()
