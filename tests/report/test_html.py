from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.example_records import checked_at
from tests.report.conftest import clear, hostile, map_of, silent, tower
from veridical.records.errors import InputError, SpanError
from veridical.records.spans import Span
from veridical.records.strings import visible
from veridical.records.types import Case, Checked, Evidence, Judgement, Omission, Outcome, Source, Verdict
from veridical.report.html import render_html, render_pages
from veridical.report.pages import render
from veridical.report.salience import hover_rules, map_view

VOID = {"meta", "link", "rect", "br", "img", "input"}


class Page(HTMLParser):
    """The parts of a page that the tests ask for; fails on tags that do not close in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.stack: list[tuple[str, dict[str, str]]] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []  # every text of a response or source, without what only a reader hears or clicks
        self.said: list[str] = []
        self.feed(html)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {key: value or "" for key, value in attrs}
        self.tags.append((tag, held))
        if "text" in held.get("class", "").split():
            self.texts.append("")
        if tag not in VOID:
            self.stack.append((tag, held))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)
        classes = [held.get("class", "").split() for _, held in self.stack]
        beside = any({"vh", "refs", "gap"} & set(names) for names in classes)
        if not beside and any("text" in names for names in classes):
            self.texts[-1] += data

    def ids(self) -> list[str]:
        return [held["id"] for _, held in self.tags if "id" in held]

    def links(self) -> list[str]:
        return [held["href"] for tag, held in self.tags if tag == "a"]

    def element(self, id: str) -> dict[str, str]:
        return next(held for _, held in self.tags if held.get("id") == id)

    def under(self, kind: str) -> list[dict[str, str]]:
        return [held for _, held in self.tags if {"m", kind} <= set(held.get("class", "").split())]


def page(*checked: Checked) -> Page:
    return Page(render_html(checked))


def check_links(shown: Page) -> None:
    ids = shown.ids()
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in shown.links()} <= set(ids)
    assert all(link.startswith("#") for link in shown.links())


def test_every_link_leads_somewhere_on_the_page(cases: list[Checked]) -> None:
    check_links(page(*cases))


def test_texts_are_whole(cases: list[Checked]) -> None:
    expected = []
    for item in cases:
        expected += [visible(item.case.response)] * len(item.judgements)
        expected += [visible(source.text) for source in item.case.sources]
    assert page(*cases).texts == expected


@st.composite
def drawn_case(draw: st.DrawFn) -> Checked:
    letters = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("a. \n\r<>&\"'")), min_size=0, max_size=40)
    response = draw(letters)
    sources = tuple(Source(str(i), draw(letters), must_cover=True) for i in range(2))

    def span(text: str) -> Span:
        a, b = draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))
        return Span(min(a, b), max(a, b))

    def evidence() -> Evidence:
        source = draw(st.sampled_from(sources))
        return Evidence(source.id, span(source.text), draw(st.floats(0, 1)))

    few = st.integers(0, 3)
    judgements = tuple(
        Judgement(
            "x",
            f"d{i}",
            verdicts=tuple(
                Verdict(span(response), draw(st.floats(0, 1)), evidence=tuple(evidence() for _ in range(draw(few))))
                for _ in range(draw(few))
            ),
            omissions=tuple(Omission(s.id, span(s.text), draw(st.floats(0, 1))) for s in sources),
            judged=draw(st.sampled_from([None, (), (span(response),)])),
        )
        for i in range(2)
    )
    return checked_at(Case("x", response, sources), judgements, (0.5, 0.4), Outcome.FLAGGED)


@settings(max_examples=150, deadline=None)
@given(drawn_case())
def test_any_case_keeps_its_texts_and_links(checked: Checked) -> None:
    shown = page(checked)
    case = checked.case
    assert shown.texts == [visible(t) for t in (case.response, case.response, *(s.text for s in case.sources))]
    check_links(shown)


def test_evidence_is_linked_both_ways() -> None:
    shown = page(tower())
    word = next(held for held in shown.under("backed") if held.get("title", "").startswith("overlap"))
    place = shown.element(word["href"][1:])
    assert "proof" in place["class"]
    claim = next(held for held in shown.under("flag") if "intrinsic" in held.get("title", ""))
    assert "proof" in shown.element(claim["href"][1:])["class"]
    backs = [held.get("href") for held in shown.under("proof")]
    assert f"#{word['id']}" in backs
    assert f"#{claim['id']}" in backs


def test_cut_marks_are_lit_up_as_a_whole() -> None:
    shown = page(tower())
    claim = next(held["id"] for held in shown.under("flag") if "intrinsic" in held.get("title", ""))
    assert f'#{claim}:target ~ [data-k~="{claim}"]' in shown.html
    carrying = [held for held in shown.under("flag") if claim in held.get("data-k", "").split()]
    assert len(carrying) == 2  # "The " and "tower is 300 m tall", where the other verdict begins


def test_details_stand_in_the_list_and_on_hover() -> None:
    shown = page(tower())
    said = "".join(shown.said)
    titles = " ".join(held.get("title", "") for _, held in shown.tags)
    for words in ("intrinsic", "The tower's height is 300 m.", "The source says 330 m.", "The tower is 330 m tall"):
        assert words in said
        assert words in titles
    for words in ("had to be covered", "Perspective", "against", "Nothing on cost.", "1 left out"):
        assert words in said


def test_neighbouring_flagged_words_are_one_finding() -> None:
    shown = page(tower())
    assert sum("flag" in held.get("class", "").split() for tag, held in shown.tags if tag == "li") == 3


def test_a_flagged_word_leads_to_its_note_and_the_note_back() -> None:
    links = page(tower()).links()
    for k in (1, 2):
        assert links.count(f"#c1-d1-n{k}") == 1
        assert f"#c1-d1-f{k}" in links


def test_a_place_with_several_words_leads_back_to_each() -> None:
    both = tuple(Verdict(span, 0.1, evidence=(Evidence("s", Span(0, 3)),)) for span in (Span(0, 3), Span(4, 7)))
    judgement = Judgement("x", "d", verdicts=both)
    shown = page(checked_at(Case("x", "Yes yes.", (Source("s", "Yes."),)), (judgement,), (0.5,), Outcome.CLEAR))
    assert {"#c1-d1-v1", "#c1-d1-v2"} <= set(shown.links())
    assert "↩2" in shown.said


def test_a_reason_that_all_findings_share_is_said_once() -> None:
    verdicts = tuple(Verdict(Span(i, i + 1), 1.0, reason="not in any source") for i in (0, 4, 8))
    judgement = Judgement("x", "d", verdicts=verdicts)
    shown = page(checked_at(Case("x", "a is b or c"), (judgement,), (0.5,), Outcome.FLAGGED))
    assert "".join(shown.said).count("not in any source") == 1


def test_not_judged_is_marked_and_said() -> None:
    shown = page(silent())
    said = "".join(shown.said)
    assert len(shown.under("unjudged")) == 1 + 1  # the words and the legend
    assert "13 characters of the response were not judged" in said
    assert "Whether the sources that had to be covered are covered was not judged" in said
    assert "badge clear" not in shown.html
    assert "nothing here is judged" in "".join(page(checked_at(Case("q", "Yes."), (), (), Outcome.UNJUDGED)).said)


def test_the_legend_says_what_the_labels_and_kinds_on_the_page_mean() -> None:
    said = "The tower is 300 m tall."
    verdict = Verdict(Span(13, 16), 0.9, "contradiction", kind="value")
    page = render_html(
        [checked_at(Case("1", said), (Judgement("1", "x", verdicts=(verdict,)),), (0.5,), Outcome.FLAGGED)]
    )
    assert "<b>contradiction</b>: a source says something else" in page
    assert "<b>value</b>: another number" in page
    assert "<b>absence</b>" not in page


def test_a_case_without_a_claim_is_counted_as_such() -> None:
    case = Case("1", "I don't know.")
    page = render_html([checked_at(case, (Judgement("1", "x", judged=(), no_claim=True),), (0.5,), Outcome.NO_CLAIM)])
    assert "1 without a claim" in page
    assert "not judged" not in page


def test_hostile_text_makes_no_tag_and_no_attribute() -> None:
    allowed_tags = {tag for tag, _ in page(tower(), silent(), clear()).tags}
    allowed_names = {name for _, held in page(tower(), silent(), clear()).tags for name in held}
    shown = page(hostile(), tower())
    assert {tag for tag, _ in shown.tags} <= allowed_tags
    assert {name for _, held in shown.tags for name in held} <= allowed_names
    assert "{{ 7 * 7 }}" in "".join(shown.said)
    assert not set(shown.html) & set("\x1b\x07\x9b\u202e\ud800")
    shown.html.encode()


def test_the_page_forbids_itself_everything_but_its_own_style(cases: list[Checked]) -> None:
    shown = page(*cases)
    policy = next(h["content"] for _, h in shown.tags if h.get("http-equiv") == "Content-Security-Policy")
    style = re.search(r"<style>(.*?)</style>", shown.html, re.S)
    assert style is not None
    assert f"'sha256-{b64encode(sha256(style[1].encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not any(tag in ("script", "iframe", "img", "form") for tag, _ in shown.tags)
    assert not any("style" in held or "src" in held for _, held in shown.tags)


def mapped() -> str:
    """A page of two judgements of one case and a third case, whose first detector has a map."""
    rows = [[map_of(tower().case), None], [map_of(hostile().case)], [None]]
    return render_html([tower(), hostile(), clear()], maps=rows)


def test_a_map_stands_below_its_case_under_the_same_rules() -> None:
    shown = Page(mapped())
    check_links(shown)
    assert [held["id"] for tag, held in shown.tags if held.get("class") == "salience"] == ["c1-d1-map", "c2-d1-map"]
    words = [held for _, held in shown.tags if held.get("id", "").startswith("c1-d1-map-r")]
    assert len(words) == len(map_of(tower().case).response_words)
    assert {w["tabindex"] for w in words} == {"0"}
    assert "salience-flagged" in shown.html.split('id="c1-d1-map-r3"')[0].rsplit("<", 1)[1]  # "300" is flagged
    assert not any("style" in held or "src" in held or tag == "script" for tag, held in shown.tags)
    style = re.search(r"<style>(.*?)</style>", shown.html, re.S)
    assert style is not None
    assert b64encode(sha256(style[1].encode()).digest()).decode() in shown.html
    assert ".salience-7 {" in style[1]
    assert not set(shown.html) & set("\x1b\x07\x9b\u202e\ud800")


def test_each_word_lights_up_what_it_rests_on_and_the_other_way_round() -> None:
    case, found = tower().case, map_of(tower().case)
    rules = hover_rules(found, id="m")
    lit = {a: set(re.findall(r"#m-[rs]\d+", b)) for a, b in (re.split(r" (?=:is)", rule) for rule in rules)}
    for j in range(len(found.response_words)):
        best = {f"#m-s{i}" for i in np.argsort(-found.values[:, j])[:5]}
        assert lit[f"#m:has(#m-r{j}:is(:hover,:focus))"] == best
        assert all(f"#m-r{j}" in lit[f"#m:has({place}:hover)"] for place in best)
    html = render("salience.html", map=map_view(found, case, id="m"))
    assert 'id="m-r0"' in html
    assert 'id="m-s0"' in html
    assert hover_rules(found, words=0) == []


def test_rules_of_a_page_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veridical.report.html.HIGHLIGHTING_WORDS", 4)
    style = mapped().partition("</style>")[0]
    assert "#c1-d1-map-r3:is" in style
    assert "#c1-d1-map-r4:is" not in style
    assert "c2-d1-map" not in style


def test_a_page_without_maps_has_nothing_of_them_and_wrong_ones_are_refused() -> None:
    assert "salience-" not in render_html([tower()])
    assert render_html([tower()], maps=[[None, None]]) == render_html([tower()])
    for maps in ([[None]], [[None, None], [None]]):
        with pytest.raises(InputError, match="rows of maps"):
            render_html([tower()], maps=maps)


def test_a_very_long_response_is_marked_in_part_and_shown_whole() -> None:
    case = Case("1", " ".join(f"word{i}" for i in range(1600)), (Source("a", "word1 word2"),))
    html = render("salience.html", map=map_view(map_of(case), case))
    assert "The first 1,500 of 1,600 words are marked." in html
    assert "word1599" in html
    assert 'id="map-r1499"' in html
    assert 'id="map-r1500"' not in html


def test_the_table_comes_with_several_cases_only() -> None:
    assert not any(tag == "table" for tag, _ in page(tower()).tags)
    shown = page(tower(), silent(), clear())
    assert sum(tag == "tr" for tag, _ in shown.tags) == 4
    assert "1 flagged" in "".join(shown.said)
    assert "1 not fully judged" in "".join(shown.said)


def test_the_same_cases_give_the_same_page_and_no_case_a_page_too() -> None:
    assert render_html([tower()]) == render_html([tower()])
    assert "0 cases" in render_html([])
    assert "&lt;i&gt;Run&lt;/i&gt;" in render_html([], title="<i>Run</i>")


def test_a_long_source_is_shown_as_its_marked_passages_with_all_of_it_folded_away() -> None:
    long = "".join(f"Sentence {i} fills the page. " for i in range(30_000))
    marked = [Span(m.start(), m.end()) for m in re.finditer(r"Sentence \d*77 ", long)]
    verdicts = tuple(Verdict(Span(0, 3), 0.1, evidence=(Evidence("s", span),)) for span in marked)
    checked = checked_at(
        Case("long", "Yes.", (Source("s", long),)), (Judgement("long", "d", verdicts=verdicts),), (0.5,), Outcome.CLEAR
    )
    shown = page(checked)
    assert shown.texts[2] == long
    assert len(shown.texts[1]) < len(long) / 50
    assert all(span.of(long) in shown.texts[1] for span in marked)
    assert sum("gap" in held.get("class", "") for _, held in shown.tags) == len(marked) + 1
    check_links(shown)


def test_a_judgement_that_does_not_fit_is_refused() -> None:
    bad = Judgement("x", "d", verdicts=(Verdict(Span(0, 99), 1.0),))
    with pytest.raises(SpanError, match="runs past the response"):
        render_html([checked_at(Case("x", "short"), (bad,), (0.5,), Outcome.FLAGGED)])


def test_the_reason_is_no_warning_and_where_a_judgement_comes_from_is_shown() -> None:
    judgement = Judgement("x", "judge:cot", 0.0, reason="It says <so>.", provenance=(("prompt judge_cot", "0123abcd"),))
    html = render_html([checked_at(Case("x", "Yes."), (judgement,), (0.5,), Outcome.CLEAR)])
    assert '<p dir="auto">It says &lt;so&gt;.</p>' in html
    assert "prompt judge_cot 0123abcd" in html
    assert 'class="warn"' not in html


def test_adjacent_words_with_one_correction_have_one_note() -> None:
    case = Case("c", "It is two hundred m tall.", (Source("a", "It is 330 m tall."),))
    verdicts = tuple(
        Verdict(span, 0.9, "contradiction", None, (Evidence("a", Span(0, 17)),), "the source has 330", "330", "value")
        for span in (Span(6, 9), Span(10, 17))
    )
    html = render_html([checked_at(case, (Judgement("c", "x", verdicts=verdicts),), (0.5,), Outcome.FLAGGED)])
    assert html.count("<ins>330</ins>") == 1
    assert html.count("the source has 330</dd>") == 1
    assert html.count('<span class="chip">contradiction · value</span>') == 1
    assert "“<bdi>two hundred</bdi>”" in html


def test_many_cases_are_cut_into_pages_that_lead_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veridical.report.html.CASES_ON_PAGE", 2)
    results = [tower(), clear(), tower(), clear(), tower()]
    paths = render_pages(results, Path("out/my report.html"))
    pages = {path.name: text for path, text in paths.items()}
    assert [str(path) for path in paths] == ["out/my report.html", *(f"out/my report.page-{k}.html" for k in (2, 3))]
    first, second, last = (Page(text) for text in pages.values())
    cases = [f"c{i}" for i in range(1, 6)]
    assert [[id for id in one.ids() if id in cases] for one in (first, second, last)] == [
        cases[:2],
        cases[2:4],
        cases[4:],
    ]
    assert "5 cases" in pages["my report.html"]
    assert "1 case<" in pages["my report.page-3.html"]
    targets = [href for href in first.links() if href.endswith(("#c1", "#c3", "#c5"))]
    assert targets == ["#c1", "my%20report.page-2.html#c3", "my%20report.page-3.html#c5"]
    assert pages["my report.page-2.html"].count('aria-current="page">2<') == 2
    assert render_pages(results[:2], Path("a.html")) == {Path("a.html"): render_html(results[:2])}
