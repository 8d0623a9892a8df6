"""A salience map as HTML: the response and what of its sources bears on it, for texts of any length.

No script and no style attribute: shades are classes, and what lights up under the pointer are rules of the page's style
sheet. `salience_page` is a page of one map; the report of `veridical check` is another that shows maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.core.salience_map import SalienceMap
from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.core.text import visible
from veridical.core.types import Case
from veridical.report.pages import render, render_page

__all__ = [
    "HIGHLIGHTING_WORDS",
    "MapView",
    "hover_rules",
    "map_view",
    "salience_html",
    "salience_page",
    "salience_style",
]

HIGHLIGHTING_WORDS = 400  # response words of a page that light up others: each takes rules of its own
_SHADES = 8
_LINKS = 5  # source words that a response word names and lights up
_SENTENCES = 40  # sentences of sources that are shown
_MARKED = 1500  # response words that are marked


@dataclass(frozen=True, slots=True)
class WordView:
    """A marked word, the text between it and the word before it, and what it says on hover."""

    before: str
    text: str
    shade: int
    id: str
    tip: str
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class SourceMapView:
    """The sentences of a source that are shown: its words, and the text behind the last one."""

    name: str
    shown: int
    sentences: int
    words: tuple[WordView, ...]
    rest: str


@dataclass(frozen=True, slots=True)
class MapView:
    """What a page shows of a map. `words` counts those of the response, `heading` is the level of its headings."""

    id: str
    heading: int
    response: tuple[WordView, ...]
    rest: str
    words: int
    sources: tuple[SourceMapView, ...]


def salience_page(salience: SalienceMap, case: Case, *, flagged: Sequence[Span] = (), title: str = "Salience") -> str:
    """One self-contained HTML document of a map: no script, nothing loaded, light and dark."""
    view = map_view(salience, case, flagged=flagged)
    return render_page("salience_page.html", salience_style(hover_rules(salience)), title=title, map=view)


def salience_html(
    salience: SalienceMap, case: Case, *, flagged: Sequence[Span] = (), id: str = "map", heading: int = 2
) -> str:
    """The map as a <div> for a page of one's own, which needs `salience_style` in its style sheet; see `map_view`."""
    return render("salience.html", map=map_view(salience, case, flagged=flagged, id=id, heading=heading))


def salience_style(rules: Sequence[str] = ()) -> str:
    """The style sheet of a page with salience maps; `rules` are those of `hover_rules` for each map."""
    return render("salience.css", shades=_SHADES, rules=rules)


def hover_rules(salience: SalienceMap, *, id: str = "map", words: int = HIGHLIGHTING_WORDS) -> list[str]:
    """CSS selectors: a response word under the pointer or in focus lights up the source words that it rests on most.

    And a source word under the pointer those response words. For the first `words` response words of the map that
    `map_view` called `id`; a browser that does not know `:has` leaves it out.
    """
    responses_of: dict[int, list[int]] = {}
    rules = []
    for j in range(min(words, len(salience.response_words))):
        rows = _strongest(salience, j)
        for i in rows:
            responses_of.setdefault(i, []).append(j)
        if rows:
            targets = ",".join(f"#{id}-s{i}" for i in rows)
            rules.append(f"#{id}:has(#{id}-r{j}:is(:hover,:focus)) :is({targets})")
    for i, columns in responses_of.items():
        targets = ",".join(f"#{id}-r{j}" for j in columns)
        rules.append(f"#{id}:has(#{id}-s{i}:hover) :is({targets})")
    return rules


def _strongest(salience: SalienceMap, column: int) -> list[int]:
    """The rows of the highest values above 0 in a column, highest first."""
    import numpy as np

    values = salience.values[:, column]
    return [i for i in np.argsort(-values, kind="stable")[:_LINKS].tolist() if values[i] > 0]


def map_view(
    salience: SalienceMap,
    case: Case,
    *,
    flagged: Sequence[Span] = (),
    sentence_limit: int = _SENTENCES,
    id: str = "map",
    heading: int = 2,
) -> MapView:
    """What a page with `salience_style` shows of a map: the response above or beside the sources.

    Words are shaded by attribution and contribution, each compared with the highest of its side. A response word names
    the source words it rests on most, on hover, on focus and to a screen reader; with `hover_rules` of the same `id`
    they light up.

    Args:
        salience: The map of `case`.
        case: The texts.
        flagged: Spans of the response to underline.
        sentence_limit: Only this many sentences of the sources, those that bear most on the response, are shown.
        id: What the ids of its elements begin with.
        heading: The level of the headings.
    """
    weighted = {source.id: _sentence_weights(salience, source.id, source.text) for source in case.sources}
    weights = sorted((weight for pairs in weighted.values() for _, weight in pairs), reverse=True)
    least = weights[min(sentence_limit, len(weights)) - 1] if weights else 0.0
    views = []
    for source in case.sources:
        shown = [span for span, weight in weighted[source.id] if weight >= least and weight > 0]
        words, rest = _source_words(salience, source.id, source.text, shown, id)
        name = f"{source.id} ({source.perspective})" if source.perspective else source.id
        views.append(SourceMapView(visible(name), len(shown), len(weighted[source.id]), tuple(words), rest))
    response, rest = _response_words(salience, case.response, flagged, id)
    return MapView(id, heading, tuple(response), rest, len(salience.response_words), tuple(views))


def _response_words(
    salience: SalienceMap, response: str, flagged: Sequence[Span], id: str
) -> tuple[list[WordView], str]:
    flags, peak = salience.flags(flagged), float(salience.attribution.max(initial=0.0))
    views, at = [], 0
    for j, word in enumerate(salience.response_words[:_MARKED]):
        lines = [f"attribution {salience.attribution[j]:.1%}"]
        for i in _strongest(salience, j):
            source_word = salience.source_words[i]
            lines.append(f"{salience.values[i, j]:.1%} {source_word.text} ({source_word.source_id})")
        views.append(
            WordView(
                visible(response, at, word.span.start),
                visible(response, word.span.start, word.span.end),
                _shade(salience.attribution[j], peak),
                f"{id}-r{j}",
                visible("\n".join(lines)),
                flags[j],
            )
        )
        at = word.span.end
    return views, visible(response, at, len(response))


def _shade(value: float, peak: float) -> int:
    return round((_SHADES - 1) * min(value / peak, 1.0)) if peak > 0 else 0


def _sentence_weights(salience: SalienceMap, source_id: str, text: str) -> list[tuple[Span, float]]:
    """Each sentence of a source with the highest contribution of a word in it."""
    words = sorted(
        (word.span.start, float(value))
        for word, value in zip(salience.source_words, salience.contribution, strict=True)
        if word.source_id == source_id
    )
    weighted, at = [], 0
    for span in sentences(text):
        weight = 0.0
        while at < len(words) and words[at][0] < span.end:
            weight = max(weight, words[at][1])
            at += 1
        weighted.append((span, weight))
    return weighted


def _source_words(
    salience: SalienceMap, source_id: str, text: str, shown: Sequence[Span], id: str
) -> tuple[list[WordView], str]:
    """The words of the sentences `shown`, with dots for what is left out between them; and what follows the last."""
    peak = float(salience.contribution.max(initial=0.0))
    words = sorted(
        (word.span, float(value), i)
        for i, (word, value) in enumerate(zip(salience.source_words, salience.contribution, strict=True))
        if word.source_id == source_id
    )
    views: list[WordView] = []
    before, at, last = "", 0, 0
    for sentence in shown:
        gap = text[last : sentence.start]
        before += "… " if gap.strip() else visible(gap)
        last = sentence.start
        while at < len(words) and words[at][0].start < sentence.start:
            at += 1
        while at < len(words) and words[at][0].end <= sentence.end:
            span, value, i = words[at]
            before += visible(text, last, span.start)
            shade = _shade(value, peak)
            views.append(WordView(before, visible(text, span.start, span.end), shade, f"{id}-s{i}", f"{value:.1%}"))
            before, last = "", span.end
            at += 1
        before += visible(text, last, sentence.end)
        last = sentence.end
    return views, before + ("…" if text[last:].strip() else "")
