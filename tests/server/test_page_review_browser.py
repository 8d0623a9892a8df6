"""Deciding about findings on the page, in a real headless Chromium: the text that follows, and what survives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.page_browser import RESPONSE, SOURCE, Opened, file_of, until
from tests.server.page_service import Marker, long_text, serving
from veridical.datasets import read
from veridical.io.serialization import decode, encode
from veridical.records.decide import decide
from veridical.records.edits import apply
from veridical.records.types import Case, Checked, Example, Judgement, Span, Thresholds, Verdict
from veridical.server.settings import ServerSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SELECT = """([selector, start, end]) => {
  const node = document.querySelector(selector).firstChild;
  getSelection().setBaseAndExtent(node, start, node, end);
}"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ServerSettings(detectors=(), own_detectors={"marker": Marker()})) as address:
        yield address


def progress(page: Page) -> str:
    return page.locator('[data-part="progress"]').inner_text()


def revised(page: Page) -> str:
    """The text of the revision as it is shown: without what is taken out, and what only screen readers get."""
    text: str = page.evaluate("""() => {
      const shown = document.querySelector('#view .diff').cloneNode(true);
      for (const gone of shown.querySelectorAll('del, .hidden')) gone.remove();
      return shown.textContent;
    }""")
    return text


def test_a_correction_is_one_click_and_the_text_follows(opened: Opened) -> None:
    page = opened.check()
    page.locator("#view a.mark.flag").first.click()
    page.get_by_role("button", name="Use “right”").click()
    assert opened.marked("#view .mark.gone") == ["wrong"]
    assert opened.marked("#view .response ins") == ["right"]
    assert progress(page) == "1 of 2 findings decided"
    assert page.locator("#view .finding .chip").all_inner_texts() == ["Corrected"]
    page.locator("#view a.mark.flag").last.click()
    page.get_by_role("button", name="Remove the sentence").click()
    page.click("#tab-revision")
    assert revised(page) == "It is right here."
    assert opened.marked("#view .edits del")[0] == "wrong"
    page.get_by_role("button", name="Use this text").click()
    until(page, "document.querySelector('[data-part=progress]').textContent === ''")
    assert page.locator("#view a.mark.flag").count() == 0
    assert page.input_value("#response") == "It is right here."
    assert opened.problems == []


def test_every_decision_has_a_key_and_can_be_undone(opened: Opened) -> None:
    page = opened.check(must_cover="This is told. Omit nothing of it!")
    keys = page.keyboard
    states = page.locator("#view .finding .state")

    def decided() -> list[str]:
        return [text.split("\n")[0] for text in states.all_inner_texts()]

    keys.press("n")
    keys.press("a")
    keys.press("n")
    keys.press("e")
    keys.press("Control+a")
    keys.insert_text("rightly")
    keys.press("Enter")
    keys.press("n")
    keys.press("e")
    assert page.locator(".inspector textarea").input_value() == "Omit nothing of it!"
    keys.press("Enter")
    assert decided() == ["Corrected", "Corrected", "Added"]
    assert page.evaluate("document.activeElement.dataset.part") == "inspector"
    page.click("#tab-revision")
    whole = "It is right here. 😀 And rightly so there, which is doubtful. Omit nothing of it!"
    assert revised(page) == whole
    page.click("#tab-text")
    page.locator("#result").focus()
    for _ in range(3):
        keys.press("u")
    assert progress(page) == "0 of 3 findings decided"
    assert page.locator('[data-part="undo"]').is_disabled()
    for _ in range(3):
        keys.press("U")
    assert progress(page) == "3 of 3 findings decided"
    keys.press("n")
    keys.press("k")
    assert decided()[0] == "Kept"
    assert page.locator("#view .mark.keep").count() == 1
    keys.press("k")  # again: taken back
    keys.press("w")
    keys.press("n")
    keys.press("r")
    assert decided() == ["Wrong", "Removed", "Added"]
    page.click("#tab-revision")
    assert revised(page) == "It is wrong here. Omit nothing of it!"
    assert opened.problems == []


def test_an_error_that_was_missed_is_reported_with_the_mouse_and_without(opened: Opened) -> None:
    page = opened.check()
    page.evaluate(SELECT, ["#view .response > div > :nth-child(1)", 0, 3])
    page.get_by_role("button", name="Report an error").click()
    assert page.input_value("#missed-words") == "wro"
    page.get_by_role("button", name="Cancel").click()
    page.keyboard.press("m")
    page.fill("#missed-words", "nowhere")
    page.fill("#missed-reason", "the place is another")
    page.keyboard.press("Enter")
    assert "not in the response" in page.locator('[data-part="missed-problem"]').inner_text()
    page.fill("#missed-words", "there")
    page.fill("#missed-text", "here")
    page.get_by_role("button", name="Add the error").click()
    assert opened.marked("#view a.mark.missed") == ["there"]
    assert page.locator(".inspector blockquote").inner_text() == "there"
    assert "the place is another" in page.locator(".inspector").inner_text()
    assert progress(page) == "1 of 3 findings decided"
    page.click("#tab-revision")
    assert revised(page) == "It is wrong here. 😀 And wrongly so here, which is doubtful."
    page.click("#tab-text")
    page.locator(".inspector").focus()
    page.keyboard.press("k")
    assert page.locator("#view a.mark.missed").count() == 0
    assert opened.problems == []


def test_selected_words_are_found_behind_hidden_characters(opened: Opened) -> None:
    page = opened.check("A\u202eb\r\nc 😀 said so.")
    text = "#view .response > div"
    start, end = page.locator(text).evaluate("e => [' said', ' so'].map(words => e.textContent.indexOf(words))")
    page.evaluate(SELECT, [text, start, end])
    page.locator("#result").focus()
    page.keyboard.press("m")
    assert page.input_value("#missed-words") == "said"
    page.get_by_role("button", name="Add the error").click()
    assert opened.marked("#view a.mark.missed") == ["said"]
    assert page.locator("#next").is_enabled()  # the only finding


def test_overlapping_decisions_make_one_text(opened: Opened) -> None:
    page = opened.check("Yes. It is wrong. No.")
    for words, text in (("is wrong", "is right"), ("It is", "They are")):
        page.locator("#result").focus()
        page.keyboard.press("m")
        page.fill("#missed-words", words)
        page.fill("#missed-text", text)
        page.get_by_role("button", name="Add the error").click()
    page.click("#tab-revision")
    assert revised(page) == "Yes. They are wrong. No."  # the later of two replacements
    page.locator("#result").focus()
    page.keyboard.press("n")
    page.keyboard.press("r")  # and a removed sentence takes what is in it along
    page.click("#tab-revision")
    assert revised(page) == "Yes. No."
    assert opened.problems == []


def test_a_removed_sentence_takes_its_full_stop_along(opened: Opened) -> None:
    page = opened.page
    response = "Yes. Dr. Lee said wrong things. No."
    start, end = response.index("Dr."), response.index(". No")
    found = Verdict(Span(response.index("wrong"), response.index(" things")), 0.9)
    sentence = Verdict(Span(start, end), 0.9)  # without the full stop, and over an abbreviation
    judgement = Judgement("1", "d", 0.9, verdicts=(found,), sentences=(sentence,))
    case = Case("1", response)
    decision = decide(case, judgement, Thresholds())
    checked = Checked(case, (judgement,), (decision,), decision.outcome)
    page.set_input_files("#files", [file_of("r.json", encode(checked))])
    page.wait_for_selector("#result:not([hidden])")
    page.keyboard.press("n")
    page.keyboard.press("r")
    page.click("#tab-revision")
    assert revised(page) == "Yes. No."


def test_deciding_in_a_long_text_is_quick_and_stays_in_place(opened: Opened) -> None:
    page = opened.page
    text = f"{long_text(150)} This is wrong.\n\n{long_text(150)}".encode()
    page.set_input_files("#response-file", [{"name": "long.txt", "mimeType": "text/plain", "buffer": text}])
    until(page, "document.querySelector('#response').value !== ''")
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    page.keyboard.press("n")
    page.wait_for_timeout(100)
    top = page.evaluate("scrollY")
    took = page.evaluate("""async () => {
      const began = performance.now();
      document.querySelector('[data-action="remove"]').click();
      await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - began;
    }""")
    assert took < 1000  # milliseconds
    assert abs(page.evaluate("scrollY") - top) < 40
    assert opened.marked("#view .mark.gone")[0] == " This is "


@pytest.mark.parametrize("width", [320, 1280])
def test_deciding_fits_every_width(browser: Browser, url: str, width: int) -> None:
    opened = Opened(browser, url, viewport={"width": width, "height": 800})
    over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    page = opened.check(f"{RESPONSE} wrong{'x' * 200}")
    page.locator("#view a.mark.flag").first.click()
    assert page.evaluate(over) <= 0
    page.locator('[data-action="edit"]').click()
    assert page.evaluate(over) <= 0
    page.get_by_role("button", name="Use this text").click()
    page.keyboard.press("m")
    assert page.evaluate(over) <= 0
    page.click("#tab-revision")
    assert page.evaluate(over) <= 0
    opened.context.close()


def saved(page: Page, button: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    return Path(download.value.path()).read_text("utf-8")


def examples(page: Page, folder: Path) -> list[Example]:
    """The examples that the page saves, as `bench` and `train` read them."""
    page.click("#tab-revision")
    path = folder / "examples.jsonl"
    path.write_text(saved(page, "Save labelled examples"), "utf-8")
    return list(read(f"jsonl:{path}"))


def test_a_revision_is_saved_in_three_forms(opened: Opened) -> None:
    page = opened.check(f"😀 {RESPONSE}")
    for keys in ("na", "nr"):
        for key in keys:
            page.keyboard.press(key)
    page.click("#tab-revision")
    text = "😀 It is right here."
    assert saved(page, "Save the text") == text
    revision = decode(saved(page, "Save the edits as JSON"), "revision")
    assert revision.text == text == apply(f"😀 {RESPONSE}", revision.edits)
    assert [edit.replacement for edit in revision.edits] == ["right", ""]
    markdown = saved(page, "Save as Markdown")
    reason = "it is not right; nothing in the sources is close to this"
    assert markdown.startswith(f"{text}\n\n## Changes\n\n- ~~wrong~~ → **right** ({reason})\n- ~~")
    assert opened.problems == []


def test_decisions_are_gold_labels(opened: Opened, tmp_path: Path) -> None:
    page = opened.check(f"😀 {RESPONSE}", must_cover="This is told. Omit nothing of it!")
    for keys in ("na", "nk", "nw"):
        for key in keys:
            page.keyboard.press(key)
    (example,) = examples(page, tmp_path)
    gold, response = example.gold, example.case.response
    assert [(v.span.of(response), v.score, v.correction) for v in gold.verdicts] == [
        ("wrong", 1.0, "right"),
        ("wrongly", 0.0, None),
    ]
    assert gold.hallucination == 1.0
    assert gold.judged is not None
    assert [span.of(response) for span in gold.judged] == ["wrong", "wrongly"]
    (omission,) = gold.omissions
    assert omission.span.of(example.case.source(omission.source_id).text) == "Omit nothing of it!"
    assert (gold.omission, omission.score) == (1.0, 1.0)
    page.get_by_role("button", name="Nothing else is wrong").click()
    (example,) = examples(page, tmp_path)
    assert example.gold.judged is None
    for _ in range(4):
        page.locator('[data-part="undo"]').click()
    assert page.get_by_role("button", name="Save labelled examples").is_disabled()


def test_a_response_with_nothing_wrong_is_gold_too(opened: Opened, tmp_path: Path) -> None:
    page = opened.check("Right.")
    page.click("#tab-revision")
    page.get_by_role("button", name="Nothing else is wrong").click()
    (example,) = examples(page, tmp_path)
    assert (example.gold.hallucination, example.gold.verdicts, example.gold.judged) == (0.0, (), None)


def check_row(page: Page) -> None:
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")


def test_rows_keep_what_they_came_with(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    case = {
        "id": "q7",
        "question": "Where?",
        "history": [{"speaker": "user", "text": "A cat."}],
        "prompt": "Answer briefly.",
        "response": "😀 So wrong.",
        "sources": [{"id": "s", "text": SOURCE, "metadata": {"week": 3}}],
    }
    besides = {"document": "d", "model": "m", "label": 1, "metadata": {"week": 3, "tags": ["a"]}, "spans": [[2, 4]]}
    gold = {
        "case_id": "e",
        "by": "human:a",
        "verdicts": [{"span": {"start": 5, "end": 10}, "score": 1.0, "reason": "no"}],
    }
    example = {"veridical": "example/1", "case": {**case, "id": "e"}, "gold": gold, "group": [["task", "qa"]]}
    whole = {**example, "case": {**case, "id": "w"}, "gold": {"case_id": "w", "by": "human:a", "hallucination": 1.0}}
    unnamed: dict[str, Any] = {"response": "Right.", "sources": [SOURCE]}
    page.set_input_files("#files", [file_of("rows.jsonl", {**case, **besides}, example, whole, unnamed)])
    page.wait_for_selector("#rows:not([hidden])")
    for i in range(4):
        if i:
            page.click("#next-row")
        check_row(page)
    page.click("#tab-revision")
    page.get_by_role("button", name="Nothing else is wrong").click()
    row, gold_row, whole_row, named = examples(page, tmp_path)
    assert (row.case.id, row.case.question, row.case.prompt) == ("q7", "Where?", "Answer briefly.")
    assert [(turn.speaker, turn.text) for turn in row.case.history] == [("user", "A cat.")]
    assert row.case.sources[0].metadata == {"week": 3}
    assert (row.document, dict(row.group)) == (
        "d",
        {"label": "1", "metadata.tags": '["a"]', "metadata.week": "3", "model": "m"},
    )
    assert [(v.span.of(row.case.response), v.score) for v in row.gold.verdicts] == [("So", 1.0)]
    assert row.gold.judged is None
    assert [v.span.of(gold_row.case.response) for v in gold_row.gold.verdicts] == ["wrong"]
    assert gold_row.gold.verdicts[0].reason == "no"
    assert dict(gold_row.group) == {"task": "qa"}
    assert (whole_row.gold.hallucination, whole_row.gold.by) == (1.0, "human:a")
    assert named.case.id == "rows.jsonl:4"
    assert opened.problems == []


def test_labels_stay_with_their_text(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    part = {"case_id": "a", "by": "human:a", "judged": [{"start": 0, "end": 3}], "hallucination": 0.0}
    row = {"veridical": "example/1", "case": {"id": "a", "response": "All wrong.", "sources": [SOURCE]}, "gold": part}
    outside = {**row, "gold": {**part, "verdicts": [{"span": {"start": 5, "end": 50}, "score": 1.0}]}}
    page.set_input_files("#files", [file_of("gold.jsonl", row, row, outside, {"response": "a", "spans": ["x"]})])
    until(page, "document.querySelector('#error-text').textContent !== ''")
    assert page.locator("#error-text").inner_text() == (
        "2 of 4 rows were not opened: gold.jsonl:3: its labels are not spans of its texts; "
        "gold.jsonl:4: its labels are not spans of its texts"
    )
    check_row(page)
    page.keyboard.press("n")
    page.keyboard.press("w")
    page.click("#next-row")
    page.fill("#response", "Quite wrong.")
    check_row(page)
    page.keyboard.press("n")
    page.keyboard.press("k")
    same, changed = examples(page, tmp_path)
    assert same.gold.judged is not None
    assert [span.of("All wrong.") for span in same.gold.judged] == ["All", "wrong"]
    assert same.gold.hallucination == 1.0
    assert changed.gold.judged is not None
    assert [span.of("Quite wrong.") for span in changed.gold.judged] == ["wrong"]
    assert changed.gold.hallucination is None
    assert [example.case.id for example in (same, changed)] == ["a", "a (2)"]
    assert opened.problems == []


def test_the_turns_of_a_conversation_are_shown_with_each_answer(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    turns = [("user", "A cat."), ("assistant", "So wrong."), ("user", "And\u202e?"), ("assistant", "Also wrong.")]
    messages = [{"role": role, "content": text} for role, text in turns]
    page.set_input_files("#files", [file_of("chats.jsonl", {"id": "c", "model": "m", "messages": messages})])
    until(page, "document.querySelector('#response').value !== ''")
    check_row(page)
    page.click("#next-row")
    page.get_by_text("Earlier turns (3)").click()
    page.locator("#view .turns b").nth(2).wait_for()
    assert page.locator("#view .turns b").all_text_contents() == ["user", "assistant", "user"]
    assert page.locator("#view .turns p").all_text_contents() == ["A cat.", "So wrong.", "And⟨U+202E⟩?"]
    page.locator("#result").focus()
    page.keyboard.press("n")
    page.keyboard.press("k")
    (example,) = examples(page, tmp_path)
    assert (example.case.id, dict(example.group)) == ("c message 4", {"model": "m"})
    assert [turn.text for turn in example.case.history] == ["A cat.", "So wrong.", "And\u202e?"]
    assert opened.problems == []


def test_a_pressed_button_stays_in_focus(opened: Opened) -> None:
    page = opened.check()
    page.locator("#view a.mark.flag").first.click()
    page.locator('[data-action="keep"]').focus()
    for pressed in ("true", "false"):
        page.keyboard.press("Enter")
        button = page.locator('[data-action="keep"]')
        assert button.get_attribute("aria-pressed") == pressed
        assert button.evaluate("e => e === document.activeElement")
    page.keyboard.press("w")
    label = page.locator("#view a.mark.flag .hidden").first.text_content() or ""
    assert label.strip() == "[flagged, 0.90, wrong]"


def test_a_large_paste_does_not_freeze_the_page(opened: Opened) -> None:
    took = opened.page.evaluate("""() => {
      const field = document.querySelector('#response');
      field.hidden = true;  // the time of this page, not that of the browser's layout
      field.value = 'Some words of a long text. '.repeat(200000);
      const began = performance.now();
      field.dispatchEvent(new Event('input'));
      return performance.now() - began;
    }""")
    assert took < 100  # milliseconds
    until(opened.page, "document.querySelector('#response-count').textContent.startsWith('5,400,000')")


def test_decisions_survive_back_and_a_reload(opened: Opened) -> None:
    page = opened.check()
    for key in "nank":
        page.keyboard.press(key)
    page.go_back()
    assert page.input_value("#response") == RESPONSE
    page.fill("#response", "Typed, not checked.")
    page.go_forward()
    page.wait_for_selector("#result:not([hidden])")
    assert progress(page) == "2 of 2 findings decided"
    page.reload()
    page.wait_for_selector("#result:not([hidden])")
    assert progress(page) == "2 of 2 findings decided"
    assert opened.marked("#view .response ins") == ["right"]
    page.keyboard.press("n")
    page.keyboard.press("a")  # takes it back
    assert progress(page) == "1 of 2 findings decided"
    page.go_back()
    assert page.input_value("#response") == "Typed, not checked."
    page.reload()
    page.wait_for_selector(".detector")
    until(page, "document.querySelector('#response').value === 'Typed, not checked.'")
    page.fill("#response", RESPONSE)
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    assert progress(page) == "1 of 2 findings decided"  # it is the same text again
    assert [entry for entry in opened.problems if "decisions" in entry] == []


def test_decisions_survive_other_cases_and_other_files(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    cases = [{"response": f"{word} wrong.", "sources": [SOURCE]} for word in ("One", "Two")]
    page.set_input_files("#files", [file_of("cases.jsonl", *cases)])
    page.wait_for_selector("#rows:not([hidden])")
    for key in "ak":
        check_row(page)
        page.keyboard.press("n")
        page.keyboard.press(key)
        if key == "a":
            page.click("#next-row")
    page.go_back()
    page.go_back()
    assert opened.marked("#view .response ins") == ["right"]
    page.reload()
    until(page, "document.querySelector('#row').textContent === 'Case 1 of 2 (cases.jsonl:1)'")
    page.click("#next-row")
    assert page.locator("#view .finding .chip").all_inner_texts() == ["Kept"]
    both = examples(page, tmp_path)
    assert [example.gold.hallucination for example in both] == [1.0, None]
    page.click("#edit")
    page.set_input_files("#files", [file_of("other.jsonl", {"response": "Another."})])  # asks nothing: they are saved
    until(page, "document.querySelector('#response').value === 'Another.'")
    page.go_back()
    until(page, "document.querySelector('#row').textContent === 'Case 2 of 2 (cases.jsonl:2)'")
    page.go_back()
    page.wait_for_selector("#result:not([hidden])")
    assert page.locator("#view .finding .chip").all_inner_texts() == ["Kept"]
    assert opened.problems == []


def test_a_result_never_arrives_at_another_file(opened: Opened) -> None:
    page = opened.page
    page.route("**/v1/check", lambda route: None)  # never answered
    page.fill("#response", RESPONSE)
    page.click("#check")
    page.wait_for_selector("#busy:not([hidden])")
    page.set_input_files("#files", [file_of("other.jsonl", {"response": "Another."})])
    until(page, "document.querySelector('#response').value === 'Another.'")
    until(page, "document.querySelector('#busy').hidden")


def test_unsaved_decisions_are_not_replaced_without_a_question(opened: Opened) -> None:
    page = opened.check()
    page.keyboard.press("n")
    page.keyboard.press("a")
    page.click("#edit")
    page.set_input_files("#files", [file_of("other.jsonl", {"response": "Another."})])
    until(page, "document.querySelector('#response').value !== ''")
    assert page.input_value("#response") == RESPONSE
    assert opened.problems == ["Labels or decisions are not saved. Go on without them?"]


def test_what_the_browser_has_no_room_for_is_said(opened: Opened) -> None:
    page = opened.page
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    opened.check()
    assert "do not survive a reload" in page.locator("#kept").inner_text()
    leaves = "dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    assert page.evaluate(leaves)
    page.keyboard.press("n")
    page.keyboard.press("a")
    assert not page.evaluate(leaves)
    page.click("#tab-revision")
    saved(page, "Save labelled examples")
    assert page.evaluate(leaves)
