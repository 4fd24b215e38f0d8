"""The inspector's pages in a real Chromium: they work, load nothing else, and all can read them."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import axe_playwright_python
import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from context_assembler import ContextAssembler
from context_assembler.cli import main
from context_assembler.models import bundled_path
from context_assembler.transcripts import read_transcript
from tests.server.conftest import CALLS, SESSION, serving

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
LOOKS: list[tuple[int, Any]] = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: on Debian, apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield opened
        opened.close()


@contextmanager
def opened(browser: Browser, url: str, **given: Any) -> Iterator[Page]:
    """Open a page that may write no error to the console, open no dialog and ask nobody else."""
    context = browser.new_context(**given)
    page, told = context.new_page(), list[str]()
    page.on("console", lambda one: told.append(f"{one.type}: {one.text}"))
    page.on("pageerror", lambda one: told.append(str(one)))
    page.on("dialog", lambda one: told.append(f"dialog: {one.message}"))
    own = (url.split("?", maxsplit=1)[0].rpartition("/")[0], "data:")
    page.on("request", lambda one: told.extend([one.url] * (not one.url.startswith(own))))
    page.goto(url)
    yield page
    assert page.title() != "taken"
    context.close()
    assert told == []


def of_session(client: httpx.Client, **asked: Any) -> str:
    return f"{client.base_url}/session?{urlencode({'id': SESSION, **asked})}"


def apart(work: Any, *given: Any) -> Any:
    """Run what starts a loop of its own: the browser's is the one of this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *given).result()


def wait(page: Page, script: str) -> None:
    page.wait_for_function(f"() => {script}")


def test_the_slider_goes_from_step_to_step(browser: Browser, pages: httpx.Client) -> None:
    with opened(browser, of_session(pages)) as page:
        page.locator("#at").focus()
        page.keyboard.press("Home")
        wait(page, "document.querySelector('#step section').ariaLabel.endsWith('step 1')")
        first = page.locator("#step .figures dd").first.inner_text()
        page.get_by_role("button", name="Step after").click()
        wait(page, "document.querySelector('#step section').ariaLabel.endsWith('step 2')")

        assert "at=2" in page.url
        assert page.locator("#step .figures dd").first.inner_text() != first
        assert "As it was sent." in page.locator("#step .origin").inner_text()


def test_the_report_is_filtered(browser: Browser, pages: httpx.Client) -> None:
    with opened(browser, of_session(pages, at=CALLS)) as page:
        rows = page.locator("#report tbody tr")
        whole = rows.count()
        page.locator("#decision").select_option("shortened")
        cut = rows.count()
        page.locator("#text").fill("no such text")

        assert 0 < cut < whole
        assert set(page.locator("#report tbody .tag").all_inner_texts()) <= {"shortened"}
        assert rows.count() == 0
        assert page.locator("#found").inner_text().startswith("0 of")


def test_a_payload_is_shown_and_copied(browser: Browser, pages: httpx.Client) -> None:
    rights = {"permissions": ["clipboard-read", "clipboard-write"]}
    with opened(browser, of_session(pages, at=3), **rights) as page:
        for provider, key in (("anthropic", "messages"), ("gemini", "contents")):
            page.locator("#provider").select_option(provider)
            page.get_by_role("button", name="Show", exact=True).click()
            wait(page, f"document.getElementById('wire').textContent.includes('\"{key}\"')")
            page.get_by_role("button", name="Copy").click()
            wait(page, "document.getElementById('copied').textContent")

            copied = page.evaluate("navigator.clipboard.readText()")
            assert json.loads(copied) == json.loads(page.locator("#wire").inner_text())


def test_two_steps_are_compared(browser: Browser, pages: httpx.Client) -> None:
    said = []
    with opened(browser, of_session(pages, at=3)) as page:
        for other in (2, CALLS):
            page.locator("#other").fill(str(other))
            page.get_by_role("button", name="Compare").click()
            wait(page, f"document.getElementById('compared').textContent.includes('step {other}')")
            said.append(page.locator("#compared").inner_text())

    assert "Cache kept: step 3 begins with all that step 2 sent" in said[0]
    assert "Added: 2 pieces," in said[0]
    assert "Cut: 0 pieces," in said[0]
    assert f"step {CALLS} sends" in said[1]
    assert "Cache kept for the first" in said[1]


def test_another_budget_strategy_and_model_are_tried(browser: Browser, pages: httpx.Client) -> None:
    with opened(browser, of_session(pages, at=CALLS)) as page:
        page.locator("#if-budget").fill("3000")
        page.locator("#if-strategy").select_option("sliding")
        page.locator("#if-model").fill("gpt-5.5")
        page.get_by_role("button", name="Try").click()
        wait(page, "document.querySelector('#tried section')")

        tried = page.locator("#tried").inner_text()
        assert "Cache not kept: another provider and model" in tried
        assert "of 3,000" in tried
        page.locator("#if-model").fill("no-such-model")
        page.get_by_role("button", name="Try").click()
        page.get_by_role("alert").wait_for()

        assert "no-such-model" in page.get_by_role("alert").inner_text()


def test_the_steps_are_priced_by_policy(browser: Browser, pages: httpx.Client) -> None:
    with opened(browser, of_session(pages)) as page:
        page.get_by_role("button", name="Replay the session").click()
        page.locator("#costs table").wait_for()

        assert page.locator("#costs polyline").count() == page.locator("#costs tbody tr").count()
        assert page.locator("#costs tbody").inner_text().count("$") > 1


@pytest.mark.parametrize("place", ["/session", "/", "/instructions", "/memory?q=prices", "/memory"])
def test_everybody_can_read_the_pages(browser: Browser, pages: httpx.Client, place: str) -> None:
    url = of_session(pages, at=CALLS) if place == "/session" else f"{pages.base_url}{place}"
    with opened(browser, url, bypass_csp=True) as page:  # for the checker alone
        if place == "/session":
            page.get_by_role("button", name="Replay the session").click()
            page.get_by_role("button", name="Compare").click()
            page.locator("#costs table").wait_for()
            page.get_by_text("Parts and settings").click()
        page.evaluate(AXE)
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate("axe.run()")["violations"]

            assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_in_one_file_works_without_a_server(
    browser: Browser, recorded: tuple[dict[str, str], list[Any]], tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    with pytest.raises(SystemExit, match="0"):
        apart(
            main, ["explain", SESSION, "--sessions", recorded[0]["sessions"], "--html", str(file)]
        )

    with opened(browser, file.as_uri()) as page:
        page.get_by_role("button", name="Step before").click()
        page.get_by_role("button", name="Step before").click()
        page.locator("#provider").select_option("anthropic")
        page.get_by_role("button", name="Show", exact=True).click()
        payload = json.loads(page.locator("#wire").inner_text())
        page.get_by_role("button", name="Compare").click()

        sent = recorded[1][CALLS - 2]
        assert [one["role"] for one in payload["messages"]] == [
            one["role"] for one in sent["messages"]
        ]
        assert payload["tools"] == sent["tools"]
        assert page.locator("#compared").inner_text().startswith("Cache ")
        assert page.locator("#costs polyline").count() > 1


def test_a_session_of_5000_events_is_drawn_with_few_elements(
    browser: Browser, tmp_path: Path
) -> None:
    sample = read_transcript(Path(bundled_path("samples/coding_agent.json"))).events
    url = f"sqlite:{tmp_path}/long.db"

    async def fill() -> None:
        events = []
        for run in range(5_000 // len(sample) + 1):
            for one in sample:
                parts: list[Any] = [*one.parts]
                for at, part in enumerate(parts):
                    if hasattr(part, "call_id"):
                        parts[at] = replace(part, call_id=f"{part.call_id}-{run}")
                events.append(replace(one, id="", seq=0, parts=tuple(parts)))
        async with ContextAssembler(url) as assembler:
            await assembler.sessions.append(SESSION, events[:5_000])

    apart(asyncio.run, fill())
    state = tmp_path / "state"
    with serving(state, sessions=url) as client, opened(browser, of_session(client)) as page:
        assert "5,000 events" in page.locator(".title").inner_text()
        assert page.locator("#step rect").count() < 1_000
        assert page.locator("#report tbody tr").count() == 200
        page.get_by_role("button", name="Show more").click()
        assert page.locator("#report tbody tr").count() == 1_200
        page.locator("#at").focus()
        page.keyboard.press("PageDown")
        wait(page, "!document.querySelector('#step section').ariaLabel.endsWith(' 1455')")
