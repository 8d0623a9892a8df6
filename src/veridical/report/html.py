"""One self-contained HTML page of checked cases: no script, nothing loaded from anywhere, every text escaped.

The page forbids itself everything but its own style sheet (Content-Security-Policy), so that text which comes from
strangers stays text even if escaping had a hole.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from veridical.core.errors import InputError
from veridical.core.text import visible
from veridical.core.types import Checked, Outcome
from veridical.report.findings import number
from veridical.report.html_segments import Piece
from veridical.report.html_view import CaseView, case_view
from veridical.report.salience import LIT_WORDS, SALIENCE_CSS, salience_html, salience_rules

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from veridical.core.salience_map import SalienceMap

__all__ = ["page_environment", "render_html"]

# a mark that had to be cut is lit up as a whole by a style rule of its own; beyond this many only its first piece is
CUT_MARKS = 400


def render_html(
    checked: Sequence[Checked],
    *,
    title: str = "Veridical report",
    generated: str | None = None,
    maps: Sequence[Sequence[SalienceMap | None]] = (),
) -> str:
    """The page of all cases of `checked`: one HTML document without a script, readable without a network.

    `generated` (a date, a command) is shown under the title as it is; without it the same cases always give the same
    page. `maps[i][k]` is the salience map behind `checked[i].judgements[k]`, shown below its case (None: none). Time
    and size are linear in the texts and marks. Raises `InputError` or `SpanError` for a judgement that does not fit
    its case.

    >>> from veridical.core.types import Case, Judgement, Span, Verdict
    >>> case = Case("1", "It is <b>red</b>.")
    >>> judgement = Judgement("1", "someone", verdicts=(Verdict(Span(6, 16), 0.9),))
    >>> page = render_html([Checked(case, (judgement,), (0.5,), Outcome.FLAGGED)])
    >>> "&lt;b&gt;red&lt;/b&gt;" in page, "<script" in page
    (True, False)
    """
    cases = [case_view(item, i) for i, item in enumerate(checked, 1)]
    environment = page_environment()
    style = environment.get_template("report.css").render(cut=list(_cut_marks(cases))[:CUT_MARKS]).strip()
    drawn, rules = _drawn(checked, maps)
    if drawn:
        style = "\n".join([style, SALIENCE_CSS, *rules])
    counts = Counter(item.outcome for item in checked)
    return environment.get_template("report.html").render(
        title=visible(title),
        generated=None if generated is None else visible(generated),
        cases=cases,
        counts=[(outcome, counts[outcome]) for outcome in (Outcome.FLAGGED, Outcome.UNJUDGED, Outcome.CLEAR)],
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        used=_used(cases),
        maps=drawn,
        lit=LIT_WORDS,
    )


def _drawn(
    checked: Sequence[Checked], maps: Sequence[Sequence[SalienceMap | None]]
) -> tuple[dict[str, Markup], list[str]]:
    """The salience maps as HTML by the anchor of their detector on the page, and the style rules that go with them."""
    from markupsafe import Markup

    if maps and [len(row) for row in maps] != [len(item.judgements) for item in checked]:
        raise InputError(f"{len(maps)} rows of maps for {len(checked)} cases", hint="one for each judgement, or None")
    drawn: dict[str, Markup] = {}
    rules: list[str] = []
    left = LIT_WORDS
    for i, (item, row) in enumerate(zip(checked, maps, strict=False), 1):
        for k, found in enumerate(row):
            if found is None:
                continue
            anchor = f"c{i}-d{k + 1}"
            flagged = [item.judgements[k].verdicts[j].span for j in item.decisions[k].verdicts]
            id = f"{anchor}-map"
            drawn[anchor] = Markup(salience_html(found, item.case, flagged=flagged, id=id, heading=4))
            rules.append(salience_rules(found, id=id, words=left))
            left = max(0, left - len(found.response_words))
    return drawn, rules


@cache
def page_environment() -> Environment:
    """The templates of all pages, with everything that is filled in escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("veridical.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment


def _all_pieces(cases: Iterable[CaseView]) -> Iterable[Piece]:
    for case in cases:
        for detector in case.detectors:
            yield from detector.pieces
        for _, sources in case.sides:
            for source in sources:
                yield from source.pieces


def _cut_marks(cases: Iterable[CaseView]) -> list[str]:
    """The anchors that more than one piece carries; they are made by us and need no escaping, which is checked."""
    keys = dict.fromkeys(key for piece in _all_pieces(cases) for key in piece.keys)
    return [key for key in keys if re.fullmatch(r"[a-z0-9-]+", key)]


def _used(cases: Iterable[CaseView]) -> set[str]:
    """The kinds of marks that are on the page, for the legend."""
    return {kind for piece in _all_pieces(cases) for kind in piece.kinds}
