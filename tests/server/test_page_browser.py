"""The page in a real headless Chromium, against the real service: what it shows, and that it stays quiet and usable."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import veridical
from tests.server.page_browser import RESPONSE, SOURCE, Opened, axe_violations, file_of, until
from tests.server.page_service import Half, Mapped, Marker, long_text, serving
from veridical.io.serialization import encode
from veridical.records.decide import decide, merge, overall
from veridical.records.spans import Span
from veridical.records.types import Case, Checked, Judgement, Omission, Source, SourceSpan, Thresholds, Verdict
from veridical.report.heat import word_scores
from veridical.server.keys import Key
from veridical.server.settings import ServerSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = ServerSettings(
        detectors=("verify:overlap",), own_detectors={"marker": Marker(), "half": Half(), "mapped": Mapped()}
    )
    with serving(settings) as address:
        yield address


def outcome(page: Page) -> str:
    return page.locator('[data-part="outcome-name"]').inner_text()


def test_an_example_is_one_click(browser: Browser, url: str) -> None:
    opened = Opened(browser, url, ("verify:overlap",))
    opened.page.locator(".example").first.click()
    opened.page.wait_for_selector("#result:not([hidden])")
    assert outcome(opened.page) == "Flagged"
    assert opened.page.locator("#view a.mark.flag").count() >= 2
    assert opened.page.locator(".sources .mark.omit").count() >= 1
    assert opened.page.locator("#status").inner_text().startswith("Flagged")
    assert opened.problems == []
    assert [request for request in opened.requests if not request.startswith(url)] == []
    opened.context.close()


def test_flagged_words_omissions_and_scores(opened: Opened) -> None:
    page = opened.check(must_cover="This is told. Omit nothing of it!")
    assert opened.marked("#view a.mark.flag") == ["wrong", "wrongly"]
    assert opened.marked(".sources a.mark.omit") == ["Omit nothing of it!"]
    assert opened.marked(".sources a.mark.evidence") == ["right"]
    page.locator("#view a.mark.flag").first.hover()
    assert page.locator("#tip").inner_text().split("\n")[0] == "0.90 · flagged from 0.50"
    page.mouse.move(0, 0)
    page.locator("#view a.mark.flag").last.focus()
    assert page.locator("#tip").is_visible()
    assert page.locator(".sources .mark.lit").count() == 1
    assert opened.problems == []


def test_evidence_is_linked_both_ways(opened: Opened) -> None:
    page = opened.check()
    page.locator("#view a.mark.flag").last.click()
    inspector = page.locator(".inspector")
    assert inspector.locator("blockquote").inner_text() == "wrongly"
    assert "The source has" in inspector.inner_text()
    assert page.locator(".sources .mark.chosen").count() == 1
    inspector.locator("button.quote").click()
    assert page.evaluate(
        "document.activeElement.closest('.sources') !== null && document.activeElement.className"
    ).startswith("mark evidence")
    page.keyboard.press("Enter")  # two findings cite it: the next one
    assert inspector.locator("blockquote").inner_text() == "wrong"
    assert opened.marked("#view .mark.chosen") == ["wrong"]


def test_hostile_text_stays_text(opened: Opened) -> None:
    response = (
        "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'`</textarea>\u202eabc 👩‍👩‍👧 wrong 😀"
        " \u05e9\u05dc\u05d5\u05dd wrong &lt;b&gt;"
    )
    page = opened.check(response, "<b onclick=alert(2)>right</b> 𝕏 {{7*7}} \u0000")
    assert page.title() == "Veridical"
    assert page.locator("#result :is(script, img, b)").count() == 0
    assert opened.marked("#view a.mark.flag") == ["wrong", "wrong"]
    assert opened.marked(".sources a.mark.evidence") == ["<b onclick=alert(2)>right</b> 𝕏 {{7*7}} ␀"]
    shown = page.locator("#view .response").inner_text()
    assert "<script>document.title='owned'</script><img src=x onerror=alert(1)>" in shown
    assert "⟨U+202E⟩abc" in shown
    for tab in ("words", "revision"):
        page.click(f"#tab-{tab}")
    assert opened.problems == []


def test_a_threshold_decides_again_without_a_request(opened: Opened) -> None:
    page = opened.check()
    before = len(opened.requests)
    page.click(".sensitivity summary")
    page.locator("#threshold-span").fill("0.3")
    until(page, "document.querySelectorAll('#view a.mark.flag').length === 3")
    assert opened.marked("#view a.mark.flag") == ["wrong", "wrongly", "doubtful"]
    page.locator("#threshold-span").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.locator("#threshold-response").fill("0.95")
    until(page, "document.querySelector('[data-part=outcome]').dataset.outcome === 'clear'")
    assert outcome(page) == "Clear"
    page.get_by_role("button", name="Back to 0.50").first.click()
    until(page, "document.querySelectorAll('#view a.mark.flag').length === 2")
    assert len(opened.requests) == before


def test_unjudged_is_not_clear(browser: Browser, url: str) -> None:
    opened = Opened(browser, url, ("half",))
    page = opened.check("Some of this text nobody read to its end.")
    assert outcome(page) == "Not fully judged"
    assert "characters of the response were not judged" in page.locator('[data-part="summary"]').inner_text()
    assert "it was too long" in page.locator('[data-part="notes"]').inner_text()
    [gap] = page.locator("#view .mark.unjudged").all()
    assert gap.evaluate("e => getComputedStyle(e).textDecorationStyle") == "dashed"
    assert "not judged" in gap.inner_text()
    assert page.locator(".outcome .icon-unjudged").count() == 1
    opened.context.close()


def test_what_the_server_refuses_is_one_line_and_nothing_is_lost(opened: Opened) -> None:
    page = opened.page
    page.click("#check")
    assert "The response is empty" in page.locator("#error").inner_text()
    page.fill("#response", "A text.")
    page.locator(".card textarea").fill("https://example.org/article")
    page.click("#check")
    until(page, "document.querySelector('#error-text').textContent.includes('address')")
    assert "\n" not in page.locator("#error-text").inner_text()
    assert page.input_value("#response") == "A text."
    page.locator("#dismiss").click()
    assert page.locator("#error").is_hidden()
    page.locator(".card textarea").fill("A source.")
    page.route("**/v1/check", lambda route: route.abort())
    page.click("#check")
    until(page, "document.querySelector('#error-text').textContent.includes('not reached')")
    assert page.locator("#busy").is_hidden()


def test_a_revision_is_a_diff_that_can_be_used(opened: Opened) -> None:
    page = opened.check("It rains in Rome. All wrong things fly.", "It rains in Rome. That is right.")
    page.click("#tab-revision")
    page.get_by_role("button", name="Suggest a revision").click()
    page.wait_for_selector("#view .diff")
    assert page.locator("#view .diff del").count() == 1
    assert "wrong" in page.locator("#view .diff del").inner_text()
    assert "right" in page.locator("#view .diff ins").inner_text()
    page.get_by_role("button", name="Use this text").click()
    until(page, "document.querySelectorAll('#view a.mark.flag').length === 0")
    assert page.input_value("#response") == "It rains in Rome. All right things fly."
    assert opened.problems == []


def test_detectors_side_by_side(browser: Browser, url: str) -> None:
    opened = Opened(browser, url, ("marker", "half"))
    page = opened.check()
    page.click("#tab-compare")
    columns = page.locator(".columns section")
    assert columns.locator("h2 bdi").all_inner_texts() == ["marker", "half"]
    assert columns.locator(".chip").all_inner_texts() == ["Flagged", "Not fully judged"]
    assert columns.nth(0).locator(".mark.flag").count() == 2
    assert "2 more are flagged by only one" in page.locator("#view .lead").inner_text()
    opened.context.close()


def test_claims_and_their_evidence(browser: Browser, url: str) -> None:
    opened = Opened(browser, url, ("verify:overlap",))
    page = opened.check("Nobody saw it. Elephants dance on Mars.")
    page.click("#tab-claims")
    assert page.locator("#view .finding .words").all_inner_texts() == ["Nobody saw it.", "Elephants dance on Mars."]
    page.locator("#view .finding").first.click()
    assert page.locator(".sources .mark.chosen").count() >= 1
    assert page.locator("#view .finding").first.get_attribute("aria-current") == "true"
    opened.context.close()


def test_words_by_score_without_a_source(opened: Opened) -> None:
    page = opened.check("A doubtful and wrong word.", "")
    page.click("#tab-words")
    shades = page.locator("#view .heat .mark").evaluate_all("es => es.map(e => [e.textContent, e.className])")
    assert [text for text, _ in shades] == ["A", "doubtful", "and", "wrong", "word"]
    assert ["shade-0" in shades[0][1], "shade-4" in shades[1][1], "shade-9" in shades[3][1]] == [True] * 3
    page.locator("#view .heat .mark").nth(3).hover()
    assert page.locator("#tip").inner_text() == "score 0.90"
    assert page.locator(".sources").inner_text() == "No sources were given."


def test_a_salience_map(browser: Browser, url: str) -> None:
    opened = Opened(browser, url, ("mapped",))
    page = opened.check("The right one.", SOURCE)
    page.click("#tab-map")
    page.locator("#view a.mark").nth(1).focus()
    assert "50.0 % right (source 1)" in page.locator("#tip").inner_text()
    assert "rest-9" in str(page.locator("#view a.mark").nth(1).get_attribute("class"))
    opened.context.close()


def test_a_report_is_one_file_of_what_is_seen(opened: Opened) -> None:
    page = opened.check()
    page.click(".sensitivity summary")
    page.locator("#threshold-span").fill("0.3")
    until(page, "document.querySelectorAll('#view a.mark.flag').length === 3")
    with page.expect_download() as download:
        page.click("#share")
    text = Path(download.value.path()).read_text("utf-8")
    assert "doubtful" in text
    assert "0.30" in text
    assert "<script" not in text
    with page.expect_download() as download:
        page.click("#save")
    document = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert document["veridical"] == "check/2"
    assert document["decisions"][0]["thresholds"]["span"] == 0.3
    page.click("#edit")  # and it can be opened again
    saved = {"name": "result.json", "mimeType": "application/json", "buffer": json.dumps(document).encode()}
    page.set_input_files("#files", [saved])
    page.wait_for_selector("#result:not([hidden])")
    assert opened.marked("#view a.mark.flag") == ["wrong", "wrongly", "doubtful"]


def test_files_become_sources(opened: Opened) -> None:
    page = opened.page
    page.set_input_files(
        "#files",
        [
            {"name": "a.txt", "mimeType": "text/plain", "buffer": SOURCE.encode()},
            {"name": "b.md", "mimeType": "text/markdown", "buffer": b"# Title\n\nThe *text* of it."},
            {"name": "c.pdf", "mimeType": "application/pdf", "buffer": b"not a pdf"},
        ],
    )
    until(page, "!document.querySelector('#error').hidden")
    assert page.locator("#error-text").inner_text().startswith("c.pdf: ")
    assert page.locator("#error-text").inner_text().count("c.pdf") == 1
    assert [card.input_value() for card in page.locator(".card .id").all()] == ["a.txt", "b.md"]
    assert page.locator(".card textarea").last.input_value() == "Title\n\nThe text of it."
    page.set_input_files("#response-file", [{"name": "r.txt", "mimeType": "text/plain", "buffer": b"So wrong."}])
    until(page, "document.querySelector('#response').value !== ''")
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    assert opened.marked("#view a.mark.flag") == ["wrong"]


def test_every_case_of_a_file_can_be_reached(opened: Opened) -> None:
    page = opened.page
    cases = [{"response": f"Answer {i} is wrong.", "sources": [SOURCE]} for i in range(1, 26)]
    page.set_input_files("#files", [file_of("cases.jsonl", *cases)])
    page.wait_for_selector("#rows:not([hidden])")
    row, following, before = page.locator("#row"), page.locator("#next-row"), page.locator("#previous-row")
    assert row.inner_text() == "Case 1 of 25 (cases.jsonl:1)"
    assert before.is_disabled()
    seen = [page.input_value("#response")]
    for _ in range(24):
        following.click()
        seen.append(page.input_value("#response"))
    assert seen == [case["response"] for case in cases]
    assert row.inner_text() == "Case 25 of 25 (cases.jsonl:25)"
    assert following.is_disabled()
    page.fill("#response", "So wrongly.")
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    before.click()
    assert page.input_value("#response") == "Answer 24 is wrong."
    page.fill("#response", "Changed.")
    following.click()
    assert opened.marked("#view a.mark.flag") == ["wrongly"]  # what was checked is still there
    before.click()
    assert page.input_value("#response") == "Changed."
    assert opened.problems == []


def test_what_a_case_of_a_file_has_besides_is_checked_with_it(opened: Opened) -> None:
    page = opened.page
    besides = {"id": "case 7", "history": [{"speaker": "user", "text": "A cat."}], "prompt": "Answer briefly."}
    source = {"id": "s", "text": SOURCE, "metadata": {"week": 3}}
    page.set_input_files(
        "#files", [file_of("cases.jsonl", {**besides, "response": "So.", "sources": [source]}, {"response": "Right."})]
    )
    page.wait_for_selector("#rows:not([hidden])")

    def asked() -> dict[str, Any]:
        with page.expect_request("**/v1/check") as request:
            page.click("#check")
        (case,) = request.value.post_data_json["cases"]
        return dict(case)

    first = asked()
    assert {name: first[name] for name in besides} == besides
    assert first["sources"] == [source]
    page.wait_for_selector("#result:not([hidden])")
    page.click("#edit")
    page.click("#next-row")
    assert asked().keys() == {"response", "sources"}
    page.wait_for_selector("#result:not([hidden])")
    page.click("#previous-row")  # and after it was left
    again = asked()
    assert {name: again[name] for name in besides} == besides
    assert opened.problems == []


def test_results_of_several_files_and_a_row_that_is_neither(opened: Opened) -> None:
    page = opened.page
    results = [
        json.loads(encode(veridical.check(text, [SOURCE], detector=Marker()))) for text in ("So wrong.", "Right.")
    ]
    files = [file_of("results.jsonl", *results, "{broken"), file_of("case.json", {"response": "A text."})]
    page.set_input_files("#files", files)
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#row").inner_text() == "Case 1 of 3 (results.jsonl:1)"
    assert opened.marked("#view a.mark.flag") == ["wrong"]
    assert page.locator("#error-text").inner_text() == (
        "1 of 4 rows were not opened: results.jsonl:3: neither a case, a conversation nor a result"
    )
    page.click("#next-row")
    assert outcome(page) == "Clear"
    page.click("#next-row")
    assert page.locator("#result").is_hidden()
    assert page.input_value("#response") == "A text."


def test_each_turn_of_a_conversation_has_a_result(opened: Opened) -> None:
    chat = [{"role": role, "content": text} for role, text in (("user", "A cat."), ("assistant", "So wrong."))]
    page = opened.check(json.dumps([*chat, {"role": "assistant", "content": "Right."}]))
    assert page.locator("#row").inner_text() == "Case 1 of 2 (1 message 2)"
    assert opened.marked("#view a.mark.flag") == ["wrong"]
    assert "A cat." in page.locator(".sources").inner_text()
    assert SOURCE in page.locator(".sources").inner_text().replace("\n[cited]\n", "")
    page.click("#next-row")
    assert outcome(page) == "Clear"
    files = [file_of("chats.jsonl", {"id": "c", "messages": chat}, {"response": "A text."})]
    page.click("#edit")
    page.set_input_files("#files", files)
    until(page, "document.querySelector('#row').textContent === 'Case 1 of 2 (chats.jsonl:1)'")
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#row").inner_text() == "Case 1 of 2 (chats.jsonl:1, c message 2)"
    assert opened.problems == []


def test_the_answers_of_a_sheet_are_labelled(opened: Opened) -> None:
    page = opened.page
    sheet = [{"row": i, "id": f"x{i}", "response": f"Answer {i}.", "sources": SOURCE, "wrong": None} for i in (3, 7, 9)]
    page.set_input_files("#files", [file_of("sheet.jsonl", *sheet)])
    page.wait_for_selector("#label:not([hidden])")
    page.click("#label-wrong")
    page.click("#next-row")
    page.click("#label-wrong")
    page.click("#label-wrong")  # taken back
    page.click("#next-row")
    page.click("#label-right")
    page.click("#previous-row")
    page.click("#previous-row")
    assert page.get_attribute("#label-wrong", "aria-pressed") == "true"
    with page.expect_download() as download:
        page.click("#save-labels")
    lines = Path(download.value.path()).read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"row": 3, "id": "x3", "wrong": True},
        {"row": 9, "id": "x9", "wrong": False},
    ]
    assert opened.problems == []


def test_labels_are_not_lost_without_a_question(opened: Opened) -> None:
    page = opened.page
    page.set_input_files("#files", [file_of("sheet.jsonl", {"row": 1, "id": "a", "response": "A.", "wrong": None})])
    page.click("#label-wrong")
    leaves = "dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    assert not page.evaluate(leaves)
    answers = iter([False, False, True])
    page.remove_listener("dialog", opened.dialog)
    page.on("dialog", lambda dialog: dialog.accept() if next(answers) else dialog.dismiss())
    page.locator("#examples button").first.click()
    page.set_input_files("#files", [file_of("other.jsonl", {"response": "B."})])
    assert page.input_value("#response") == "A."
    assert page.get_attribute("#label-wrong", "aria-pressed") == "true"
    page.set_input_files("#files", [file_of("other.jsonl", {"response": "B."})])
    until(page, "document.querySelector('#response').value === 'B.'")
    page.set_input_files("#files", [file_of("sheet.jsonl", {"row": 1, "id": "a", "response": "A.", "wrong": None})])
    page.click("#label-wrong")
    with page.expect_download():
        page.click("#save-labels")
    assert page.evaluate(leaves)
    page.locator("#examples button").first.click()  # asks nothing
    assert next(answers, None) is None
    assert opened.problems == []


def test_an_example_belongs_to_no_file(opened: Opened) -> None:
    page = opened.page
    page.set_input_files("#files", [file_of("cases.jsonl", {"response": "a"}, {"response": "b"})])
    page.wait_for_selector("#rows:not([hidden])")
    page.locator(".example").first.click()
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#rows").is_hidden()


def test_what_sources_are_for_is_said_of_the_ticked_detectors(browser: Browser) -> None:
    with serving(ServerSettings(detectors=("overlap", "length"))) as url:
        opened = Opened(browser, url, ("overlap",))
        page = opened.page
        assert page.locator("#without-sources").inner_text() == "without any, nothing can be judged"
        page.locator("input[value=length]").check()
        assert page.locator("#without-sources").inner_text() == "without any, only length can judge"
        page.locator("input[value=overlap]").uncheck()
        assert page.locator("#without-sources").inner_text() == "without any, the response is judged by itself"
        opened.context.close()


def test_files_can_be_dropped(opened: Opened) -> None:
    page = opened.page
    page.evaluate(
        """text => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], 'dropped.txt', {type: 'text/plain'}));
          const event = type => new DragEvent(type, {dataTransfer: transfer, bubbles: true, cancelable: true});
          const box = document.querySelector('#sources-box');
          box.dispatchEvent(event('dragover'));
          box.dispatchEvent(event('drop'));
        }""",
        SOURCE,
    )
    until(page, "document.querySelector('.card .id')?.value === 'dropped.txt'")
    assert page.locator(".card textarea").input_value() == SOURCE
    assert page.locator(".panel.over").count() == 0


def test_a_key_is_asked_for(browser: Browser) -> None:
    key = Key("alice", hashlib.sha256(b"secret").hexdigest())
    with serving(ServerSettings(detectors=(), own_detectors={"marker": Marker()}, keys=(key,))) as url:
        page = browser.new_page()
        page.set_default_timeout(30_000)
        page.goto(url)
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector(".detector")
        assert page.locator("#error").is_hidden()
        page.fill("#response", RESPONSE)
        page.click("#check")
        page.wait_for_selector("#result:not([hidden])")
        page.close()


def test_a_moved_threshold_leaves_the_source_where_it_was(opened: Opened) -> None:
    page = opened.check(source=long_text(30) + SOURCE)
    page.click(".sensitivity summary")
    page.locator(".sources").evaluate("e => { e.scrollTop = 900; }")
    page.locator("#threshold-span").fill("0.3")
    page.locator("#view a.mark.flag").nth(2).wait_for()
    assert page.locator(".sources").evaluate("e => e.scrollTop") == 900


def test_the_keyboard_goes_all_the_way(opened: Opened) -> None:
    page = opened.page
    page.locator("#response").focus()
    page.keyboard.insert_text(RESPONSE)
    page.locator(".card textarea").focus()
    page.keyboard.insert_text(SOURCE)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result:not([hidden])")
    until(page, "document.activeElement.id === 'result'")
    reached = []
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        visible = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        assert page.evaluate(f"{visible} || document.activeElement === document.body"), reached[-1]
        if reached[-1].startswith("mark flag"):
            break
    assert {"edit", "tab-text", "view"} <= set(reached)
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.part") == "inspector"
    page.keyboard.press("n")
    assert page.locator(".inspector blockquote").inner_text() == "wrongly"
    page.keyboard.press("n")
    assert page.locator(".inspector blockquote").inner_text() == "wrong"
    page.keyboard.press("p")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className").startswith("mark flag")
    assert page.locator(".inspector").is_hidden()
    page.locator("#tab-text").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-words"
    assert page.locator("#view .legend").is_visible()


def test_a_source_of_a_hundred_pages(opened: Opened) -> None:
    text = long_text(300)
    assert len(text) > 300_000
    place = text.index("Walker 8 of road 240 ")
    page = opened.page
    source = f"{text[:place]}Here it is right. {text[place:]}"
    page.set_input_files("#files", [{"name": "book.txt", "mimeType": "text/plain", "buffer": source.encode()}])
    page.wait_for_selector(".preview")
    page.fill("#response", RESPONSE)
    began = time.monotonic()
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    page.locator("#view a.mark.flag").first.click()
    until(page, IN_VIEW, ".sources .mark.chosen")
    assert time.monotonic() - began < 10
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    assert len(page.locator(".source .text").text_content() or "") >= len(source)
    drawn = page.evaluate(REDRAWN)
    assert drawn < 1000  # milliseconds


def test_a_long_response_of_many_words(opened: Opened) -> None:
    page = opened.page
    text = f"{long_text(100)} wrong".encode()
    page.set_input_files("#response-file", [{"name": "long.txt", "mimeType": "text/plain", "buffer": text}])
    until(page, "document.querySelector('#response').value !== ''")
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    page.click("#tab-words")
    page.get_by_role("button", name="0.90 wrong").click()
    until(page, IN_VIEW, "#view .pulse")
    assert opened.problems == []


IN_VIEW = """selector => {
  const box = document.querySelector(selector)?.getBoundingClientRect();
  return box && box.top >= 0 && box.bottom <= innerHeight && box.height > 0;
}"""

REDRAWN = """async () => {
  const began = performance.now();
  document.querySelector('#tab-words').click();
  document.querySelector('#tab-text').click();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - began;
}"""


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
def test_nothing_runs_off_the_side(browser: Browser, url: str, width: int) -> None:
    opened = Opened(browser, url, ("marker", "half"), viewport={"width": width, "height": 800})
    over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert opened.page.evaluate(over) <= 0
    page = opened.check(f"{RESPONSE} {'x' * 200}", must_cover="Omit nothing of it!")
    page.locator("#view a.mark.flag").first.click()
    assert page.evaluate(over) <= 0
    for tab in ("words", "compare"):
        page.click(f"#tab-{tab}")
        assert page.evaluate(over) <= 0
    opened.context.close()


def test_the_theme_can_be_changed_and_is_remembered(opened: Opened) -> None:
    page = opened.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.click("#theme")
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, url: str, scheme: str) -> None:
    opened = Opened(browser, url, ("marker", "half", "mapped", "verify:overlap"), color_scheme=scheme)
    page = opened.page
    assert axe_violations(page) == []
    opened.check(must_cover="Omit nothing of it!")
    page.locator(".judges button", has_text="marker").click()
    page.locator("#view a.mark.flag").first.click()
    page.click(".sensitivity summary")
    page.mouse.move(0, 0)
    assert axe_violations(page) == []
    for decision in ("a", "e"):
        page.keyboard.press(decision)
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    assert axe_violations(page) == []
    page.keyboard.press("Escape")
    page.click("#tab-revision")
    assert axe_violations(page) == []
    for tab in ("words", "compare"):
        page.click(f"#tab-{tab}")
        assert axe_violations(page) == [], tab
    page.locator(".judges button", has_text="half").click()
    assert axe_violations(page) == []
    page.locator(".judges button", has_text="verify:overlap").click()
    page.click("#tab-claims")
    assert axe_violations(page) == []
    page.locator(".judges button", has_text="mapped").click()
    page.click("#tab-map")
    assert axe_violations(page) == []
    opened.context.close()


def test_the_page_decides_as_the_library_does(opened: Opened) -> None:
    rng = random.Random(1)
    documents, expected = [], []
    for _ in range(300):
        checked = random_checked(rng)
        documents.append(encode(checked))
        t = Thresholds(*(round(rng.random(), 1) for _ in range(4)))
        decisions = [decide(checked.case, judgement, t) for judgement in checked.judgements]
        text = checked.case.response
        expected.append(
            {
                "outcome": overall(checked.case, checked.judgements, decisions).value,
                "flagged": [list(decision.verdicts) for decision in decisions],
                "omitted": [list(decision.omissions) for decision in decisions],
                "runs": [
                    [span.of(text) for span in merge(text, [j.verdicts[i].span for i in d.verdicts])]
                    for j, d in zip(checked.judgements, decisions, strict=True)
                ],
                "words": [
                    [round(s, 6) if s is not None else None for _, s in word_scores(checked.case, j)]
                    for j in checked.judgements
                ],
            }
        )
        documents[-1] = json.dumps(
            {
                "document": json.loads(documents[-1]),
                "thresholds": {"response": t.response, "span": t.span, "coverage": t.coverage, "source": t.source},
            }
        )
    assert opened.page.evaluate(DECIDED, documents) == expected


DECIDED = """async documents => {
  const { readChecked, decided } = await import('/checked.js');
  const { flaggedRuns } = await import('/decide.js');
  const rounded = score => score === null ? null : Math.round(score * 1e6) / 1e6;
  const { wordScores } = await import('/heat.js');
  return documents.map(JSON.parse).map(({ document, thresholds }) => {
    const checked = readChecked(document);
    checked.thresholds = checked.thresholds.map(() => thresholds);
    const { outcome, decisions } = decided(checked);
    const { content, judgements } = checked;
    const runs = judgements.map((judgement, i) => flaggedRuns(content, judgement, decisions[i]));
    return {
      outcome,
      flagged: decisions.map(d => d.verdicts),
      omitted: decisions.map(d => d.omissions),
      runs: runs.map(of => of.map(run => content.response.slice(run.start, run.end))),
      words: judgements.map(j => wordScores(content, j).map(w => rounded(w.score))),
    };
  });
}"""


def random_checked(rng: random.Random) -> Checked:
    """A case of odd texts with judgements of all sorts: nothing judged, parts, scores at some levels only."""
    pieces = [
        "a",
        "b1",
        "it's",
        " ",
        "  ",
        ". ",
        "\n",
        "😀",
        "é",
        "e\u0301",
        "漢字",
        ", ",
        "-",
        "1,5",
        "\u05e9",
        "!",
        "x",
    ]
    response = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 12))) or " "
    sources = tuple(
        Source(str(k), "".join(rng.choice(pieces) for _ in range(rng.randint(1, 6))), must_cover=rng.random() < 0.5)
        for k in range(rng.randint(0, 2))
    )

    def span(text: str) -> Span:
        start, end = sorted(rng.randint(0, len(text)) for _ in range(2))
        return Span(start, end)

    def judgement(name: str) -> Judgement:
        verdicts = tuple(
            Verdict(each, round(rng.random(), 1))
            for each in sorted(span(response) for _ in range(rng.randint(0, 4)))
            if len(each)
        )
        required = [source for source in sources if source.must_cover]
        omissions = tuple(Omission(s.id, span(s.text), round(rng.random(), 1)) for s in required if rng.random() < 0.7)
        parts = tuple(SourceSpan(s.id, span(s.text)) for s in required)
        return Judgement(
            "1",
            name,
            rng.choice([None, round(rng.random(), 1)]),
            rng.choice([None, round(rng.random(), 1)]),
            verdicts,
            omissions,
            judged=rng.choice([None, None, (), (span(response),), (Span(0, len(response)),)]),
            judged_sources=rng.choice([None, parts]),
            no_claim=rng.random() < 0.2,
        )

    case = Case("1", response, sources)
    judgements = tuple(judgement(f"d{k}") for k in range(rng.randint(1, 2)))
    decisions = tuple(decide(case, each) for each in judgements)
    return Checked(case, judgements, decisions, overall(case, judgements, decisions))
