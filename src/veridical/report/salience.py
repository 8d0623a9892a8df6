"""Show a salience map as HTML: how strongly each word of the sources influences each word of the response.

The page uses no script and no style attribute. Shades are CSS classes, and the words that belong to the word under the
pointer are highlighted by rules in the style sheet. `salience_page` renders a page with one map. The report of
`veridical check` can show maps, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.records.salience_map import SalienceMap
from veridical.records.spans import Span
from veridical.records.strings import visible
from veridical.records.types import Case
from veridical.report.pages import render, render_page
from veridical.text.segment import sentences

HIGHLIGHTING_WORDS = 400  # the most response words of a page that highlight others: each needs its own rules
_SHADES = 8
_LINKS = 5  # the most source words that a response word names and highlights
_SENTENCES = 40  # the most source sentences that are shown
_MARKED = 1500  # the most response words that are marked


@dataclass(frozen=True, slots=True)
class WordView:
    """A shaded word on a page with a salience map.

    Attributes:
        before: The text between the previous word and this one.
        text: The word.
        shade: The shade, from 0 (almost no influence) to 7 (the highest value among the words of its side, which is
            the response or the sources).
        id: The HTML id of the word.
        tip: The tooltip, with the value in percent. For a response word, it also lists its strongest source words.
        flagged: True if the word is underlined, because it is in a flagged span.
    """

    before: str
    text: str
    shade: int
    id: str
    tip: str
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class SourceMapView:
    """The part of a source that a salience map shows.

    Attributes:
        name: The name of the source.
        shown: How many sentences of the source the map shows.
        sentences: How many sentences the source has.
        words: The words of the shown sentences.
        rest: The text after the last word.
    """

    name: str
    shown: int
    sentences: int
    words: tuple[WordView, ...]
    rest: str


@dataclass(frozen=True, slots=True)
class MapView:
    """A salience map, ready for the HTML template: how strongly each source word influences each response word.

    Attributes:
        id: The prefix for the HTML ids of the map.
        heading: The level of the headings, such as 2 for <h2>.
        response: The words of the response, as far as they are shaded. (The shading is limited in long responses.)
        rest: The text of the response after these words.
        words: The number of all words of the response.
        sources: The parts of the sources that influence the response.
    """

    id: str
    heading: int
    response: tuple[WordView, ...]
    rest: str
    words: int
    sources: tuple[SourceMapView, ...]


def salience_page(salience: SalienceMap, case: Case, *, flagged: Sequence[Span] = (), title: str = "Salience") -> str:
    """Render a salience map as one self-contained HTML document without a script, for light and dark mode.

    The page shows how strongly each source word influences each response word.

    Args:
        salience: The salience map of the case.
        case: The case with the texts.
        flagged: Spans of the response to underline.
        title: The title of the page.
    """
    view = map_view(salience, case, flagged=flagged)
    return render_page("salience_page.html", salience_style(hover_rules(salience)), title=title, map=view)


def salience_style(rules: Sequence[str] = ()) -> str:
    """Render the style sheet for a page with salience maps. `rules` are the selectors of `hover_rules` for all maps."""
    return render("salience.css", shades=_SHADES, rules=rules)


def hover_rules(salience: SalienceMap, *, id: str = "map", words: int = HIGHLIGHTING_WORDS) -> list[str]:
    """Make CSS selectors that highlight the strongest source words of a response word on hover or in focus.

    If the pointer is over a source word, the response words to which it belongs are highlighted. Only the first `words`
    response words of the map are included. Pass the same `id` as to `map_view`. A browser that does not know `:has`
    highlights nothing.
    """
    responses_of: dict[int, list[int]] = {}
    rules = []
    for j in range(min(words, len(salience.response_words))):
        rows = strongest(salience, j)
        for i in rows:
            responses_of.setdefault(i, []).append(j)
        if rows:
            targets = ",".join(f"#{id}-s{i}" for i in rows)
            rules.append(f"#{id}:has(#{id}-r{j}:is(:hover,:focus)) :is({targets})")
    for i, columns in responses_of.items():
        targets = ",".join(f"#{id}-r{j}" for j in columns)
        rules.append(f"#{id}:has(#{id}-s{i}:hover) :is({targets})")
    return rules


def strongest(salience: SalienceMap, column: int) -> list[int]:
    """Return the indices of the source words that influence a response word most, strongest first.

    These are at most five words, and only words with a value above 0.

    Args:
        salience: The salience map, whose `values` have a row for each source word and a column for each response word.
        column: The index of the response word.
    """
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
    """Prepare a salience map for the HTML template. The page also needs the style sheet of `salience_style`.

    Response words are shaded by how well the sources support them (attribution). Source words are shaded by how much
    they contribute to the response (contribution). Shades are relative to the highest value on the same side. A
    response word shows its strongest source words on hover, on focus, and to a screen reader. If the style sheet has
    the `hover_rules` of the same `id`, these source words are highlighted.

    Args:
        salience: The salience map of the case.
        case: The case with the texts.
        flagged: Spans of the response to underline.
        sentence_limit: How many source sentences to show. The sentences that influence the response most are chosen.
        id: The prefix for the ids of the map's elements.
        heading: The level of the headings.
    """
    weighted = {source.id: _sentence_weights(salience, source.id, source.text) for source in case.sources}
    weights = sorted((weight for pairs in weighted.values() for _, weight in pairs), reverse=True)
    least = weights[min(sentence_limit, len(weights)) - 1] if weights else 0.0
    views = []
    for source in case.sources:
        most_read = [span for span, weight in weighted[source.id] if weight >= least and weight > 0]
        words, rest = _source_words(salience, source.id, source.text, most_read, id)
        name = f"{source.id} ({source.perspective})" if source.perspective else source.id
        views.append(SourceMapView(visible(name), len(most_read), len(weighted[source.id]), tuple(words), rest))
    response, rest = _response_words(salience, case.response, flagged, id)
    return MapView(id, heading, tuple(response), rest, len(salience.response_words), tuple(views))


def _response_words(
    salience: SalienceMap, response: str, flagged: Sequence[Span], id: str
) -> tuple[list[WordView], str]:
    flags, peak = salience.flags(flagged), float(salience.attribution.max(initial=0.0))
    views, end = [], 0  # of the last word
    for j, word in enumerate(salience.response_words[:_MARKED]):
        lines = [f"attribution {salience.attribution[j]:.1%}"]
        for i in strongest(salience, j):
            source_word = salience.source_words[i]
            lines.append(f"{salience.values[i, j]:.1%} {source_word.text} ({source_word.source_id})")
        views.append(
            WordView(
                visible(response, end, word.span.start),
                visible(response, word.span.start, word.span.end),
                _shade(salience.attribution[j], peak),
                f"{id}-r{j}",
                visible("\n".join(lines)),
                flags[j],
            )
        )
        end = word.span.end
    return views, visible(response, end, len(response))


def _shade(value: float, peak: float) -> int:
    return round((_SHADES - 1) * min(value / peak, 1.0)) if peak > 0 else 0


def _sentence_weights(salience: SalienceMap, source_id: str, text: str) -> list[tuple[Span, float]]:
    """Return each sentence of a source with the highest contribution of a word in it."""
    words = sorted(
        (word.span.start, float(value))
        for word, value in zip(salience.source_words, salience.contribution, strict=True)
        if word.source_id == source_id
    )
    weighted, k = [], 0
    for span in sentences(text):
        weight = 0.0
        while k < len(words) and words[k][0] < span.end:
            weight = max(weight, words[k][1])
            k += 1
        weighted.append((span, weight))
    return weighted


def _source_words(
    salience: SalienceMap, source_id: str, text: str, shown_sentences: Sequence[Span], id: str
) -> tuple[list[WordView], str]:
    """Return the words of `shown_sentences`, with dots where text is left out, and the text after the last word."""
    peak = float(salience.contribution.max(initial=0.0))
    words = sorted(
        (word.span, float(value), i)
        for i, (word, value) in enumerate(zip(salience.source_words, salience.contribution, strict=True))
        if word.source_id == source_id
    )
    views: list[WordView] = []
    before, k, end = "", 0, 0  # text before the next word, index of that word, end of the text handled so far
    for sentence in shown_sentences:
        gap = text[end : sentence.start]
        before += "… " if gap.strip() else visible(gap)
        end = sentence.start
        while k < len(words) and words[k][0].start < sentence.start:
            k += 1
        while k < len(words) and words[k][0].end <= sentence.end:
            span, value, i = words[k]
            before += visible(text, end, span.start)
            shade = _shade(value, peak)
            views.append(WordView(before, visible(text, span.start, span.end), shade, f"{id}-s{i}", f"{value:.1%}"))
            before, end = "", span.end
            k += 1
        before += visible(text, end, sentence.end)
        end = sentence.end
    return views, before + ("…" if text[end:].strip() else "")
