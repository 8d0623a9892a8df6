"""A salience map as HTML: the response and what of its sources bears on it, for texts of any length.

No script and no style attribute: shades are classes of `SALIENCE_CSS`, and what lights up under the pointer are rules
of `salience_rules`, so that a page that allows itself nothing but its own style sheet can hold the piece.
`salience_page` is such a page; the report of `veridical check` is another.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape

from veridical.core.salience_map import SalienceMap
from veridical.core.segment import sentences
from veridical.core.spans import Span
from veridical.core.text import visible
from veridical.core.types import Case
from veridical.report.salience_plots import flags

__all__ = ["LIT_WORDS", "SALIENCE_CSS", "salience_html", "salience_page", "salience_rules"]

_SHADES = 8
_LINKS = 5  # source words that a response word names and lights up
_TOP = 40  # sentences of sources that are shown
_MARKED = 1500  # response words that are marked
LIT_WORDS = 400  # response words of a page that light up others: each takes rules of its own


def _shades(strongest: float) -> list[str]:
    alphas = ((i, i / (_SHADES - 1) * strongest) for i in range(1, _SHADES))
    return [f".salience-{i}{{background:rgb(86 180 233/{alpha:.2f})}}" for i, alpha in alphas]


SALIENCE_CSS = "\n".join(
    [
        ".salience{line-height:1.9;overflow-wrap:anywhere}",
        ".salience p{white-space:pre-wrap;margin:.3em 0 .8em}",
        ".salience-side{min-width:0}",
        "@media(min-width:62rem){.salience{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 3rem}"
        ".salience-side+.salience-side{position:sticky;top:1rem;align-self:start;max-height:calc(100vh - 7rem);"
        "overflow:auto}}",
        ".salience-word{border-radius:.2em}",
        *_shades(0.7),
        f"@media(prefers-color-scheme:dark){{{''.join(_shades(0.5))}}}",  # light text stands out from it
        ".salience-flagged{text-decoration:underline wavy #d55e00;text-decoration-skip-ink:none}",
        ".salience-word:hover,.salience-word:focus{outline:2px solid #0072b2}",
        # at the foot of the window: it hides no neighbour and runs off no side, whatever the width
        ".salience-from{display:none;position:fixed;left:1rem;bottom:1rem;z-index:9;width:max-content;"
        "max-width:min(30em,calc(100vw - 2rem));padding:.3em .7em;background:Canvas;color:CanvasText;border:1px solid;"
        "border-radius:.3em;font:.875rem/1.5 system-ui,sans-serif;white-space:pre-line}",
        ".salience-word:hover>.salience-from,.salience-word:focus>.salience-from{display:block}",
        ".salience-source{border-left:3px solid #808080;padding-left:.6em}",
    ]
)


def salience_page(found: SalienceMap, case: Case, *, flagged: Sequence[Span] = (), title: str = "Salience") -> str:
    """One self-contained HTML document of `salience_html`: no script, nothing loaded, light and dark."""
    style = (
        ":root{color-scheme:light dark}body{font:1rem/1.6 system-ui,sans-serif;max-width:54rem;margin:2rem auto;"
        f"padding:0 1rem}}\n{SALIENCE_CSS}\n{salience_rules(found)}"
    )
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{allowed}'\">\n"
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(visible(title))}</title>\n<style>{style}</style></head>\n"
        f"<body><h1>{escape(visible(title))}</h1>\n{salience_html(found, case, flagged=flagged)}\n</body></html>\n"
    )


def salience_rules(found: SalienceMap, *, id: str = "map", words: int = LIT_WORDS) -> str:
    """CSS by which a response word under the pointer, or in focus, lights up the source words that it rests on most.

    And a source word under the pointer those response words. For the first `words` response words of the map that
    `salience_html` called `id`; a browser that does not know `:has` leaves it out.
    """
    back: dict[int, list[int]] = {}
    lights = []
    for j in range(min(words, len(found.response_words))):
        rests_on = _strongest(found, j, _LINKS)
        for i in rests_on:
            back.setdefault(i, []).append(j)
        if rests_on:
            places = ",".join(f"#{id}-s{i}" for i in rests_on)
            lights.append(f"#{id}:has(#{id}-r{j}:is(:hover,:focus)) :is({places})")
    for i, columns in back.items():
        places = ",".join(f"#{id}-r{j}" for j in columns)
        lights.append(f"#{id}:has(#{id}-s{i}:hover) :is({places})")
    lit = "{background:#e69f00;color:#000;outline:2px solid #d55e00}"
    return ",\n".join(lights) + lit if lights else ""


def _strongest(found: SalienceMap, column: int, count: int) -> list[int]:
    """The rows of the highest values above 0 in a column, highest first."""
    import numpy as np

    values = found.values[:, column]
    return [i for i in np.argsort(-values, kind="stable")[:count].tolist() if values[i] > 0]


def salience_html(
    found: SalienceMap,
    case: Case,
    *,
    flagged: Sequence[Span] = (),
    top: int = _TOP,
    id: str = "map",
    heading: int = 2,
) -> str:
    """The map as a <div> for a page that has `SALIENCE_CSS`: the response above or beside the sources.

    Words are shaded by attribution and contribution, each compared with the highest of its side. Only the `top`
    sentences of the sources that bear most on the response are shown, in order. A response word names the source words
    it rests on most, on hover, on focus and to a screen reader; with `salience_rules` of the same `id` they light up.
    `heading` is the level of the headings.
    """
    h = f"h{heading}"
    parts = [f'<div class="salience" id="{id}">\n<div class="salience-side">\n<{h}>Response</{h}>\n<p>']
    parts += [_response(found, case.response, flagged, id), "</p>"]
    if len(found.response_words) > _MARKED:
        parts.append(f"\n<p>The first {_MARKED:,} of {len(found.response_words):,} words are marked.</p>")
    parts.append('\n</div>\n<div class="salience-side">')
    weighed = {source.id: _sentences(found, source.id, source.text) for source in case.sources}
    weights = sorted((weight for pairs in weighed.values() for _, weight in pairs), reverse=True)
    least = weights[min(top, len(weights)) - 1] if weights else 0.0
    for source in case.sources:
        shown = [span for span, weight in weighed[source.id] if weight >= least and weight > 0]
        head = f"{source.id} ({source.perspective})" if source.perspective else source.id
        said = f"{len(shown)} of {len(weighed[source.id])} sentences"
        parts.append(f"\n<{h}>{escape(visible(head))}</{h}>\n<p>{said}</p>\n")
        parts.append(f'<p class="salience-source">{_source(found, source.id, source.text, shown, id)}</p>')
    return "".join([*parts, "\n</div>\n</div>"])


def _response(found: SalienceMap, response: str, flagged: Sequence[Span], id: str) -> str:
    marks, peak = flags(found, flagged), float(found.attribution.max(initial=0.0))
    parts, at = [], 0
    for j, word in enumerate(found.response_words[:_MARKED]):
        start, end = word.span.start, word.span.end
        flag = " salience-flagged" if marks[j] else ""
        parts.append(
            f"{escape(visible(response, at, start))}"
            f'<span class="salience-word {_shade(found.attribution[j], peak)}{flag}" id="{id}-r{j}" tabindex="0">'
            f"{escape(visible(response, start, end))}"
            f'<span class="salience-from" role="note">{_rests_on(found, j)}</span></span>'
        )
        at = end
    return "".join([*parts, escape(visible(response, at, len(response)))])


def _rests_on(found: SalienceMap, column: int) -> str:
    lines = [f"attribution {found.attribution[column]:.1%}"]
    for i in _strongest(found, column, _LINKS):
        word = found.source_words[i]
        lines.append(f"{found.values[i, column]:.1%} {word.text} ({word.source_id})")
    return escape(visible("\n".join(lines)))


def _shade(value: float, peak: float) -> str:
    return f"salience-{round((_SHADES - 1) * min(value / peak, 1.0)) if peak > 0 else 0}"


def _sentences(found: SalienceMap, source_id: str, text: str) -> list[tuple[Span, float]]:
    """Each sentence of a source with the highest contribution of a word in it."""
    words = sorted(
        (word.span.start, float(value))
        for word, value in zip(found.source_words, found.contribution, strict=True)
        if word.source_id == source_id
    )
    weighed, at = [], 0
    for span in sentences(text):
        weight = 0.0
        while at < len(words) and words[at][0] < span.end:
            weight = max(weight, words[at][1])
            at += 1
        weighed.append((span, weight))
    return weighed


def _source(found: SalienceMap, source_id: str, text: str, shown: Sequence[Span], id: str) -> str:
    """The sentences `shown`, their words shaded, with dots for what is left out between them."""
    peak = float(found.contribution.max(initial=0.0))
    words = sorted(
        (word.span, float(value), i)
        for i, (word, value) in enumerate(zip(found.source_words, found.contribution, strict=True))
        if word.source_id == source_id
    )
    parts, at, last = [], 0, 0
    for sentence in shown:
        gap = text[last : sentence.start]
        parts.append("… " if gap.strip() else escape(visible(gap)))
        last = sentence.start
        while at < len(words) and words[at][0].start < sentence.start:
            at += 1
        while at < len(words) and words[at][0].end <= sentence.end:
            span, value, i = words[at]
            parts.append(escape(visible(text, last, span.start)))
            parts.append(
                f'<span class="salience-word {_shade(value, peak)}" id="{id}-s{i}" title="{value:.1%}">'
                f"{escape(visible(text, span.start, span.end))}</span>"
            )
            last = span.end
            at += 1
        parts.append(escape(visible(text, last, sentence.end)))
        last = sentence.end
    return "".join([*parts, "…" if text[last:].strip() else ""])
