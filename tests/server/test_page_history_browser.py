"""The history on the page, in a real headless Chromium: imports, tables, filters, addresses and decisions that stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.history.test_learning import Scorer
from tests.server.page_browser import Opened, axe_violations, until
from tests.server.page_service import Marker, serving
from veridical.io.serialization import decode
from veridical.server.settings import HistorySettings, ServerSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

WORDS = ("wrong", "right", "right")
ROWS = [
    {"id": f"row {i}", "response": f"It is {WORDS[i % 3]} 😀 here, walker {i}.", "sources": ["right"]}
    for i in range(1, 61)
]
SAVED = "document.querySelector('#kept').textContent.includes('saved in the history')"
JUDGED = "document.querySelector('#import-progress')?.hidden && document.querySelectorAll('#desk .flagged').length > 1"
ERROR = "text => document.querySelector('#error-text').textContent.includes(text)"
DECIDED = "[...document.querySelectorAll('#desk tbody tr')].filter(row => row.children[5].textContent === '1').length"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = str(tmp_path_factory.mktemp("history") / "history.db")
    settings = ServerSettings(detectors=(), own_detectors={"marker": Marker()}, history=HistorySettings(place=place))
    with serving(settings) as address:
        yield address


def imported(page: Page) -> None:
    """Import the rows, and wait until they are judged."""
    page.click("#to-history")
    page.wait_for_selector("#import")
    text = "\n".join(map(json.dumps, ROWS))
    page.set_input_files("#desk input[type=file]", [{"name": "a.jsonl", "mimeType": "", "buffer": text.encode()}])
    page.wait_for_selector("#import-progress", state="attached")
    until(page, JUDGED)


def numbers(page: Page) -> list[int]:
    return [int(text) for text in page.locator("#desk tbody th").all_inner_texts()]


def shown(page: Page, total: str) -> None:
    now = "total => !document.querySelector('#desk').hidden && document.querySelector('#total')?.textContent === total"
    until(page, now, total)


def test_a_file_is_imported_sorted_filtered_and_paged(opened: Opened) -> None:
    page = opened.page
    imported(page)
    shown(page, "60 cases")
    assert numbers(page) == list(range(1, 51))
    page.click("#next-page")
    until(page, "document.querySelectorAll('#desk tbody tr').length === 10")
    assert numbers(page) == list(range(51, 61))
    page.get_by_role("link", name="Previous page").click()
    until(page, "document.querySelectorAll('#desk tbody tr').length === 50")
    page.click("#sort-score")
    until(page, "document.querySelector('[aria-sort=descending] #sort-score') !== null")
    assert all(number % 3 == 0 for number in numbers(page)[:20])
    page.select_option("#filter-outcome", "flagged")
    shown(page, "20 cases")
    page.fill("#filter-search", "walker 3")
    page.get_by_role("button", name="Find", exact=True).click()  # in focus, and without an id
    shown(page, "5 cases")  # 3, 30, 33, 36, 39
    assert page.locator("#error").is_hidden()
    assert sorted(numbers(page)) == [3, 30, 33, 36, 39]
    page.reload()
    shown(page, "5 cases")  # the address has order and filters
    assert page.input_value("#filter-search") == "walker 3"
    page.go_back()
    page.go_back()
    until(page, "document.querySelectorAll('#desk tbody tr').length >= 20")
    assert opened.problems == []


def test_decisions_stay_in_the_history_and_addresses_lead_back(opened: Opened, browser: Browser, url: str) -> None:
    page = opened.page
    imported(page)
    page.get_by_role("link", name="3", exact=True).click()
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#row").inner_text() == "Case 3"
    page.locator("#view a.mark.flag").first.click()
    address = page.url
    assert address.endswith("/cases/3/f0")
    page.get_by_role("button", name="Use “right”").click()
    until(page, SAVED)
    page.keyboard.press("m")
    page.fill("#missed-words", "here")
    page.get_by_role("button", name="Add the error").click()
    until(page, SAVED)
    other = Opened(browser, url)  # somebody else
    other.page.goto(address)
    other.page.wait_for_selector(".inspector:not([hidden])")
    assert other.marked("#view .response ins") == ["right"]
    assert other.marked("#view a.mark.missed") == ["here"]
    assert other.page.locator(".inspector blockquote").inner_text() == "wrong"
    other.page.locator("#result").focus()
    other.page.keyboard.press("n")
    other.page.keyboard.press("n")
    other.page.keyboard.press("k")
    until(other.page, SAVED)
    page.locator("#result").focus()
    page.keyboard.press("u")
    until(page, ERROR, "Somebody else")
    assert other.problems == []
    other.context.close()
    page.go_back()
    shown(page, "60 cases")
    assert page.locator("#desk tbody tr").nth(2).locator("td").nth(4).inner_text() == "2"
    page.go_forward()
    page.wait_for_selector("#result:not([hidden])")
    page.click("#next-row")
    until(page, "document.querySelector('#row').textContent === 'Case 4'")
    page.click("#to-run")
    shown(page, "60 cases")
    assert not [problem for problem in opened.problems if "409" not in problem]


def test_a_check_becomes_a_run_with_an_address(opened: Opened, url: str) -> None:
    page = opened.check()
    assert "#/runs/" in page.url
    page.locator("#result").focus()
    page.keyboard.press("n")
    page.keyboard.press("k")
    until(page, SAVED)
    page.reload()
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#view .mark.keep").count() == 1
    page.click("#to-check")
    page.wait_for_selector("#compose:not([hidden])")
    assert page.locator("#rows").is_hidden()
    page.go_back()
    page.wait_for_selector("#result:not([hidden])")
    newest = httpx.get(f"{url}v1/runs").json()["runs"][0]
    assert (newest["origin"], newest["cases"]) == ("check", {"flagged": 1})
    page.goto(f"{url}#/runs/none/cases/1")
    until(page, ERROR, "run 'none' has no case 1")


def test_several_cases_are_decided_at_once(opened: Opened, url: str) -> None:
    page = opened.page
    imported(page)
    page.select_option("#filter-outcome", "flagged")
    shown(page, "20 cases")
    assert page.locator("#bulk-keep").is_disabled()
    page.check("#select-all")
    page.uncheck("input[data-number='3']")
    page.click("#bulk-keep")
    until(page, f"{DECIDED} === 19")
    page.select_option("#filter-decided", "false")
    shown(page, "1 case")
    run = page.url.split("/runs/")[1].split("?")[0]
    (decision,) = httpx.get(f"{url}v1/runs/{run}/cases/6").json()["decisions"]
    assert (decision["action"], decision["start"], decision["end"]) == ("keep", 6, 11)
    page.select_option("#filter-decided", "true")
    shown(page, "19 cases")
    page.check("#select-all")
    page.click("#bulk-undecide")
    shown(page, "0 cases")
    page.select_option("#filter-decided", "")
    shown(page, "20 cases")
    page.on("dialog", lambda dialog: dialog.accept())
    page.remove_listener("dialog", opened.dialog)
    page.check("input[data-number='3']")
    page.click("#bulk-delete")
    shown(page, "19 cases")
    page.check("input[data-number='6']")
    page.click("#bulk-wrong")
    until(page, f"{DECIDED} === 1")
    with page.expect_download() as download:
        page.click("#save-examples")
    example = decode(Path(download.value.path()).read_text("utf-8"))
    assert (example.case.id, example.gold.verdicts[0].score) == ("row 6", 1.0)
    page.click("#delete-run")
    page.wait_for_selector("#import")
    assert httpx.get(f"{url}v1/runs/{run}").status_code == 404
    assert opened.problems == []


def test_two_runs_are_compared_and_followed_over_time(opened: Opened, url: str) -> None:
    page = opened.page
    ids = []
    for name, text in (("better.csv", "It is right."), ("better.csv", "It is wrong.")):
        rows = "id,response,source\n" + "".join(f"{i},{text if i < 8 else 'Right.'},right\n" for i in range(12))
        address = f"{url}v1/runs?name={name}"
        answer = httpx.post(address, content=rows, headers={"Content-Type": "application/octet-stream"})
        ids.append(answer.json()["id"])
    page.click("#to-history")
    page.wait_for_selector(f"input[data-run='{ids[1]}']")
    until(page, f"fetch('v1/runs/{ids[1]}').then(answer => answer.json()).then(run => run.state === 'done')")
    assert page.locator("#compare").is_disabled()
    for id in ids:
        page.check(f"input[data-run='{id}']")
    page.click("#compare")
    page.wait_for_selector("#desk h2")
    assert page.locator("#desk h2").inner_text() == "8 cases with another outcome"
    assert "The second run flags 66.7% more of 12 cases" in page.locator("#desk").inner_text()
    assert "p = 0.008" in page.locator("#desk").inner_text()
    page.get_by_role("link", name="Flagged", exact=True).first.click()
    page.wait_for_selector("#result:not([hidden])")
    assert f"{ids[1]}/cases/1" in page.url
    page.click("#to-run")
    shown(page, "12 cases")
    page.click("#trend summary")
    page.wait_for_selector("#trend svg")
    assert page.locator("#trend tbody tr").count() == 2
    assert page.locator("#trend tbody td.number").all_inner_texts() == ["0.0% of 12", "66.7% of 12"]
    assert page.locator("#trend circle.now").count() == 1
    assert opened.problems == []


def test_the_history_works_with_the_keyboard_only(opened: Opened) -> None:
    page = opened.page
    imported(page)
    keys = page.keyboard
    focused = "document.activeElement.id || document.activeElement.textContent"
    page.locator("#desk-title").focus()
    for _ in range(60):
        keys.press("Tab")
        if page.evaluate(focused) == "sort-score":
            break
    keys.press("Enter")
    until(page, "document.querySelector('[aria-sort=descending] #sort-score') !== null")
    assert page.evaluate(focused) == "sort-score"  # drawn again, and still there
    for _ in range(20):
        keys.press("Tab")
        if page.evaluate(focused) == "3":
            break
    keys.press("Enter")
    page.wait_for_selector("#result:not([hidden])")
    assert page.evaluate("document.activeElement.id") == "result"
    keys.press("n")
    keys.press("w")
    until(page, SAVED)
    page.locator("#to-run").focus()
    keys.press("Enter")
    shown(page, "60 cases")
    assert opened.problems == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_narrow_window_needs_no_sideways_scroll(browser: Browser, url: str, tmp_path: Path, theme: str) -> None:
    opened = Opened(browser, url, viewport={"width": 320, "height": 640}, color_scheme=theme)
    page = opened.page
    imported(page)
    page.wait_for_selector("#desk table")
    run = page.url.split("/runs/")[1]
    for address in (page.url, f"{url}#/runs", f"{url}#/runs?compare={run},{run}"):
        page.goto(address)
        page.wait_for_selector("#desk table")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.screenshot(path=tmp_path / "narrow.png", full_page=True)
    assert opened.problems == []
    opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_history(browser: Browser, url: str, scheme: str) -> None:
    opened = Opened(browser, url, color_scheme=scheme)
    page = opened.page
    imported(page)
    page.check("input[data-number='3']")
    page.click("#trend summary")
    page.wait_for_selector("#trend svg")
    assert axe_violations(page) == []
    run = page.url.split("/runs/")[1]
    for address, part in ((f"#/runs?compare={run},{run}", "h2"), ("#/runs", "#import")):
        page.evaluate("address => { location.hash = address; }", address)
        page.wait_for_selector(f"#desk {part}")
        assert axe_violations(page) == [], address
    opened.context.close()


def test_a_random_sample_is_reviewed_and_a_version_is_used(browser: Browser, tmp_path: Path) -> None:
    settings = ServerSettings(
        detectors=(), own_detectors={"scorer": Scorer()}, history=HistorySettings(place=str(tmp_path / "history.db"))
    )
    with serving(settings) as url:
        opened = Opened(browser, url, detectors=("scorer",))
        page = opened.page
        page.click("#to-history")
        page.wait_for_selector("#import")
        text = "\n".join(json.dumps({"response": f"It is {100 - i:02}.", "sources": []}) for i in range(1, 100))
        page.set_input_files("#desk input[type=file]", [{"name": "a.jsonl", "mimeType": "", "buffer": text.encode()}])
        until(page, JUDGED)
        run = page.url.rpartition("/")[2]
        page.click("#learn summary")
        page.wait_for_selector("#missing")
        assert page.locator("#fit").is_disabled()
        page.click("#draw")
        shown(page, "49 cases")
        page.locator("#desk tbody th a").first.click()
        page.wait_for_selector("#result:not([hidden])")
        assert page.locator(".mark.sample").count() == 1
        page.locator("#view button.finding.sample").click()
        page.keyboard.press("k")
        until(page, SAVED)
        stored = httpx.get(f"{url}v1/runs/{run}/cases/{page.url.split('/cases/')[1].split('/')[0]}").json()
        assert [(one["action"], [one["start"], one["end"]]) for one in stored["decisions"]] == [
            ("keep", stored["sampled"][0])
        ]
        for number in range(1, 100):
            body = {"decisions": [{"action": "wrong" if number <= 25 else "keep", "start": 0, "end": 9}]}
            httpx.put(f"{url}v1/runs/{run}/cases/{number}/decisions", json=body)
        page.goto(f"{url}#/runs/{run}")
        page.wait_for_selector("#learn")
        page.click("#learn summary")
        page.fill("#version-name", "first")
        page.click("#fit")
        until(page, "document.querySelector('#learned')?.textContent.startsWith('A clear gain')")
        page.get_by_role("button", name="Use it").click()
        until(page, "document.querySelector('#learn table')?.textContent.includes('in use')")
        assert httpx.get(f"{url}v1/calibrations").json()["in_use"] == {"scorer": "first"}
        page.get_by_role("button", name="Stop using it").click()
        until(page, "!document.querySelector('#learn table').textContent.includes('in use')")
        assert opened.problems == []
        opened.context.close()
