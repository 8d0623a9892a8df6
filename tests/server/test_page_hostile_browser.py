"""Names and texts that try to act, on every page of the history, in a real headless Chromium: all stay text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.server.page_browser import Opened, until
from tests.server.page_service import serving
from veridical.io.serialization import decode
from veridical.records.detector import DetectorInfo
from veridical.records.types import Case, Claim, Evidence, Judgement, Span, Verdict
from veridical.server.settings import HistorySettings, ServerSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

pytestmark = pytest.mark.browser

IMAGE = '<img src=x onerror="window.ran = 1">'
HOSTILE = (
    IMAGE,
    "\"'`><script>window.ran = 1</script>${window.ran = 1}",
    "javascript:window.ran=1",
    "invoice\u202egpj.exe\u2066",
    "a\u200bb\ufeffc\u2028d",
    "nul\0 \x1b[31mred\x1b[0m \x1b]8;;http://x\x07",
    "__proto__",
    "constructor",
    "%E0%A4%A 100% #/runs/x?y=z&amp; \\",
    "x" * 10_000,
)
FILE = f"{IMAGE}\"'`\u202e\0\x1b[31m.__proto__.jsonl"
DETECTOR = f"{IMAGE}\u202e`__proto__`"
ACTS = """() => {
  const hidden = /[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u2028-\\u202e\\u2060\\u2066-\\u206f\\ufeff]/;
  const texts = [document.title];
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) texts.push(nodes.currentNode.data);
  for (const { ariaLabel, title } of document.querySelectorAll("[aria-label], [title]")) texts.push(ariaLabel, title);
  const acting = [...document.querySelectorAll("img, iframe, body script, [href^=javascript]")];
  const found = [acting.map((one) => one.outerHTML), texts.filter((text) => hidden.test(text)).map(JSON.stringify)];
  return [window.ran ?? [], ...found].flat();
}"""
FILTERED = """([facet, value]) => new URLSearchParams(location.hash.split("?")[1]).get(facet) === value
  && document.querySelector("#busy").hidden"""
WIDE = "() => document.documentElement.scrollWidth > innerWidth"


class Echo:
    """Flags "wrong", and repeats the id of the case in everything that a detector may say."""

    name = DETECTOR
    info = DetectorInfo(needs_sources=False)

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        at = case.response.find("wrong")
        if at < 0:
            return Judgement(case.id, self.name, 0.1, notes=(case.id,))
        (source,) = case.sources
        said = {"label": case.id, "reason": case.id, "kind": case.id, "correction": case.id}
        claim = Claim(case.id, (Span(at, at + 5),))
        verdict = Verdict(
            Span(at, at + 5), 0.9, evidence=(Evidence(source.id, Span(0, len(source.text))),), claim=claim, **said
        )
        return Judgement(case.id, self.name, 0.9, verdicts=(verdict,), notes=(case.id,))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = str(tmp_path_factory.mktemp("history") / "history.db")
    settings = ServerSettings(detectors=(), own_detectors={DETECTOR: Echo()}, history=HistorySettings(place=place))
    with serving(settings) as address:
        yield address


def row_of(value: str, word: str) -> dict[str, Any]:
    source = {"id": value, "text": f"{value} is right.", "perspective": value, "metadata": {value: value}}
    about = {"id": value, "question": value, "label": value, "group": value, "document": value, "__proto__": value}
    return {**about, "response": f"{value} is {word}.", "sources": [source]}


@pytest.fixture(scope="module")
def runs(url: str) -> list[str]:
    """Two runs of the same hostile rows, with and without errors; the last row is no case."""
    ids = []
    for word in ("right", "wrong"):
        rows = [*(row_of(value, word) for value in HOSTILE), {IMAGE: "\u202e\x1b[31m"}]
        answer = httpx.post(
            f"{url}v1/runs",
            params={"name": FILE},
            content="\n".join(map(json.dumps, rows)),
            headers={"Content-Type": "application/octet-stream"},
        )
        assert answer.status_code == 202, answer.text
        ids.append(answer.json()["id"])
    return ids


class Watched:
    """A page on which nothing may act: no script, no hidden character, no error, no dialog that nobody asked for."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.opened = Opened(browser, url, detectors=(DETECTOR,))
        self.page: Page = self.opened.page
        self.url = url

    def go(self, address: str, wait: str) -> Page:
        self.page.evaluate("address => { location.hash = address; }", address)
        self.page.wait_for_selector(wait)
        self.look()
        return self.page

    def look(self) -> None:
        assert self.page.evaluate(ACTS) == [], self.page.url
        assert not self.page.evaluate(WIDE), self.page.url
        assert self.page.locator("#error").is_hidden(), self.page.locator("#error").inner_text()
        assert self.opened.problems == [], self.page.url
        assert [one for one in self.opened.requests if not one.startswith((self.url, "blob:"))] == []


@pytest.fixture
def watched(browser: Browser, url: str, runs: list[str]) -> Iterator[Watched]:
    one = Watched(browser, url)
    ready = "id => fetch(`v1/runs/${id}`).then((answer) => answer.json()).then((run) => run.state === 'done')"
    for run in runs:
        until(one.page, ready, run)
    yield one
    one.opened.context.close()


def test_lists_comparisons_and_filters_show_hostile_names_as_text(watched: Watched, runs: list[str]) -> None:
    page = watched.go("#/runs", "input[data-run]")
    assert IMAGE in page.locator("#desk tbody").inner_text()
    page = watched.go(f"#/runs/{runs[1]}", "#trend")
    assert IMAGE in page.locator("#desk-title").inner_text()
    assert page.locator("#desk tbody tr").count() == len(HOSTILE) + 1
    for part in ("trend", "learn"):
        page.click(f"#{part} summary")
        page.wait_for_selector(f"#{part} :is(svg, #missing)")
        watched.look()
    for facet in ("source", "label", "kind", "detector"):
        options = page.locator(f"#filter-{facet} option")
        for value in [option.get_attribute("value") for option in options.all()][1:]:
            page.select_option(f"#filter-{facet}", value)
            until(page, FILTERED, [facet, value])
            assert page.locator("#desk tbody tr").count() >= 1, (facet, value)
            watched.look()
        page.select_option(f"#filter-{facet}", "")
        until(page, f"document.querySelectorAll('#desk tbody tr').length === {len(HOSTILE) + 1}")
    for value in HOSTILE[:-1]:
        page.fill("#filter-search", value)
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#busy').hidden")
        watched.look()
    page = watched.go(f"#/runs?compare={runs[0]},{runs[1]}", "#desk h2")
    assert page.locator("#desk h2").inner_text() == f"{len(HOSTILE)} cases with another outcome"
    assert IMAGE in page.locator("#desk").inner_text()


def test_cases_and_findings_show_hostile_texts_as_text(watched: Watched, runs: list[str]) -> None:
    for number, value in enumerate(HOSTILE, 1):
        page = watched.go(f"#/runs/{runs[1]}/cases/{number}/f0", ".inspector:not([hidden])")
        until(page, "number => document.querySelector('#row').textContent === `Case ${number}`", number)
        assert page.locator("#view a.mark.flag").count() == 1
        if value.isascii() and value.isprintable():
            for part in (".inspector", "#view .response", ".sources"):
                assert value in (page.locator(part).first.text_content() or ""), part
        for tab in page.locator("[role=tab]").all():
            tab.click()
            watched.look()
        page.locator("#tab-text").click()
        page.locator("#view a.mark.flag").first.focus()
        watched.look()  # the note beside the mark
        page.locator("#view a.mark.flag").first.click()
        page.keyboard.press("a" if number % 2 else "w")
        page.keyboard.press("m")
        page.fill("#missed-words", "is")
        page.locator('[data-part="missed-reason"]').fill(value)
        page.get_by_role("button", name="Add the error").click()
        until(page, "document.querySelector('#kept').textContent.includes('saved in the history')")
        watched.look()
        page.click("#tab-revision")
        watched.look()
        page.reload()
        page.wait_for_selector("#view a.mark.missed")
        watched.look()
    page = watched.go(f"#/runs/{runs[1]}", "#total")
    for form in ("examples", "csv", "label-studio"):
        with page.expect_download() as download:
            page.click(f"#save-{form}")
        assert Path(download.value.path()).stat().st_size > 0
        if form == "examples":
            lines = Path(download.value.path()).read_text("utf-8").rstrip("\n").split("\n")
            assert [decode(line).case.id for line in lines] == list(HOSTILE)
    watched.look()


def test_what_is_asked_before_a_run_is_deleted_hides_nothing(watched: Watched, runs: list[str]) -> None:
    asked: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page = watched.go(f"#/runs/{runs[0]}", "#delete-run")
    page.remove_listener("dialog", watched.opened.dialog)
    page.on("dialog", dismiss)
    page.click("#delete-run")
    assert len(asked) == 1
    assert asked[0].startswith(f"Delete {IMAGE}")
    assert "\u202e" not in asked[0]
