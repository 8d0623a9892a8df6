"""Render checked cases as self-contained HTML pages. They have no script, load nothing, and escape every text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from veridical.records.errors import InputError
from veridical.records.types import Checked, Outcome
from veridical.report.heat import SHADES, heat_style, heat_view
from veridical.report.html_view import CaseView, case_view
from veridical.report.pages import render, render_page
from veridical.report.salience import HIGHLIGHTING_WORDS, MapView, hover_rules, map_view, salience_style

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap

# a mark that is cut into segments gets a style rule that highlights all of it; beyond this many marks, only the first
# segment is highlighted
CUT_MARKS = 400

CASES_ON_PAGE = 100
_TITLE = "Veridical report"

_OUTCOMES = (Outcome.FLAGGED, Outcome.UNJUDGED, Outcome.NO_CLAIM, Outcome.CLEAR)


def render_html(
    checked: Sequence[Checked],
    *,
    title: str = _TITLE,
    maps: Sequence[Sequence[SalienceMap | None]] = (),
    heat: bool = False,
) -> str:
    """Render checked cases as one HTML document without a script, which you can read without a network.

    The same cases always give the same page. Time and size are linear in the texts and marks.

    Args:
        checked: The checked cases.
        title: The title of the page.
        maps: The salience maps, which show how strongly each source word influences each response word. `maps[i][k]`
            belongs to `checked[i].judgements[k]` and is shown below this case. It is None to show no map.
        heat: Whether to shade words by their scores, for judgements that score words (`report.heat`).

    Raises:
        InputError: A judgement does not fit its case.
        SpanError: A span runs past the end of its text.

    >>> from veridical.records.decide import decide
    >>> from veridical.records.types import Case, Judgement, Span, Verdict
    >>> case = Case("1", "It is <b>red</b>.")
    >>> judgement = Judgement("1", "someone", verdicts=(Verdict(Span(6, 16), 0.9),))
    >>> page = render_html([Checked(case, (judgement,), (decide(case, judgement),), Outcome.FLAGGED)])
    >>> "&lt;b&gt;red&lt;/b&gt;" in page, "<script" in page
    (True, False)
    """
    styles, values = case_sections(checked, maps=maps, heat=heat)
    return render_page("report.html", *styles, title=title, **values)


def render_pages(
    checked: Sequence[Checked], path: Path, *, maps: Sequence[Sequence[SalienceMap | None]] = (), heat: bool = False
) -> dict[Path, str]:
    """Render checked cases as HTML documents of `CASES_ON_PAGE` cases each, and return the documents by file.

    The first page also has a table of all cases. The other pages belong in the same folder and have a number in their
    names, such as "report.page-2.html".

    Args:
        checked: The checked cases.
        path: The file of the first page.
        maps: The salience maps (how strongly each source word influences each response word). `maps[i][k]` belongs to
            `checked[i].judgements[k]`, and is None to show no map.
        heat: Whether to shade words by their scores, for judgements that score words.
    """
    if len(checked) <= CASES_ON_PAGE:
        return {path: render_html(checked, maps=maps, heat=heat)}
    starts = range(0, len(checked), CASES_ON_PAGE)
    files = [path, *(path.with_name(f"{path.stem}.page-{k}{path.suffix}") for k in range(2, len(starts) + 1))]
    rows: list[tuple[CaseView, str]] = []
    pages = {}
    for start, file in reversed(list(zip(starts, files, strict=True))):  # the first page needs the rows of the others
        part = slice(start, start + CASES_ON_PAGE)
        styles, values = case_sections(checked[part], first=start + 1, maps=maps[part], heat=heat)
        rows[:0] = [(case, "" if file == path else quote(file.name)) for case in values["cases"]]
        values["files"] = [(quote(each.name), file == each) for each in files]
        values["rows"] = rows if file == path else []
        if file == path:
            values["counts"] = _counts(checked)
        pages[file] = render_page("report.html", *styles, title=_TITLE, **values)
    return {file: pages[file] for file in files}


def case_sections(
    checked: Sequence[Checked], *, first: int = 1, maps: Sequence[Sequence[SalienceMap | None]] = (), heat: bool = False
) -> tuple[list[str], dict[str, Any]]:
    """Compute the style sheets and the values for the template `report.html`, which shows checked cases.

    Pages whose template extends `report.html`, such as the page of a batch, use them, too.

    Args:
        checked: The checked cases.
        first: The number of the first case on the page. The anchors of cases ("c1", "c2", …) are made from it.
        maps: The salience maps (how strongly each source word influences each response word). `maps[i][k]` belongs to
            `checked[i].judgements[k]`, and is None to show no map.
        heat: Whether to shade words by their scores, for judgements that score words.

    Returns:
        The style sheets to add to `page.css`, and the template values by name.
    """
    cases = [case_view(item, i) for i, item in enumerate(checked, first)]
    texts = [detector.segments for case in cases for detector in case.detectors]
    texts += [source.segments for case in cases for _, sources in case.perspectives for source in sources]
    segments = [segment for text in texts for segment in text]
    # anchors that several segments share; they go into CSS unescaped, so keep only those of our own form
    keys = dict.fromkeys(key for segment in segments for key in segment.keys)
    anchors = [key for key in keys if re.fullmatch(r"[a-z0-9-]+", key)]
    map_views, rules = _map_views(checked, maps, first)
    judged = (
        (i, k, item, *pair)
        for i, item in enumerate(checked if heat else (), first)
        for k, pair in enumerate(zip(item.judgements, item.decisions, strict=True), 1)
    )
    views = ((f"c{i}-d{k}", heat_view(item.case, judgement, decision)) for i, k, item, judgement, decision in judged)
    heats = {id: view for id, view in views if view is not None}
    styles = [
        render("cut_marks.css", anchors=anchors[:CUT_MARKS]),
        salience_style(rules) if map_views else "",
        heat_style() if heats else "",
    ]
    return styles, {
        "cases": cases,
        "rows": [(case, "") for case in cases],
        "files": [],
        "counts": _counts(checked),
        "used": {kind for segment in segments for kind in segment.kinds},
        "maps": map_views,
        "heats": heats,
        "shades": SHADES,
        "highlighting_words": HIGHLIGHTING_WORDS,
        "meanings": _meanings(checked),
    }


def _counts(checked: Sequence[Checked]) -> list[tuple[Outcome, int]]:
    counts = Counter(item.outcome for item in checked)
    return [(outcome, counts[outcome]) for outcome in _OUTCOMES]


def _meanings(checked: Sequence[Checked]) -> dict[str, str]:
    """Return the meaning of each label and kind that the flagged verdicts use, for the legend."""
    from veridical.detectors.explanation import KINDS, LABELS

    flagged = [
        item.judgements[k].verdicts[i]
        for item in checked
        for k, decision in enumerate(item.decisions)
        for i in decision.verdicts
    ]
    used = {word for verdict in flagged for word in (verdict.label, verdict.kind)}
    return {word: meaning for word, meaning in {**LABELS, **KINDS}.items() if word in used}


def _map_views(
    checked: Sequence[Checked], maps: Sequence[Sequence[SalienceMap | None]], first: int
) -> tuple[dict[str, MapView], list[str]]:
    """Prepare the salience maps, by the anchor of their detector on the page, and the style rules of the maps."""
    if maps and [len(row) for row in maps] != [len(item.judgements) for item in checked]:
        raise InputError(f"{len(maps)} rows of maps for {len(checked)} cases", hint="one for each judgement, or None")
    views: dict[str, MapView] = {}
    rules: list[str] = []
    words_left = HIGHLIGHTING_WORDS
    for i, (item, row) in enumerate(zip(checked, maps, strict=False), first):
        for k, salience in enumerate(row):
            if salience is None:
                continue
            anchor = f"c{i}-d{k + 1}"
            flagged = [item.judgements[k].verdicts[j].span for j in item.decisions[k].verdicts]
            views[anchor] = map_view(salience, item.case, flagged=flagged, id=f"{anchor}-map", heading=4)
            rules += hover_rules(salience, id=f"{anchor}-map", words=words_left)
            words_left = max(0, words_left - len(salience.response_words))
    return views, rules
