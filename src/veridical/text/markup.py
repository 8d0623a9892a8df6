"""Replace markup in a text by spaces.

Markup includes tags, web addresses, LaTeX commands, footnotes, lists of sources, and the numbers of list items. The
text keeps its length, so all positions remain valid. The rules take linear time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from veridical.records.spans import Span, cut
from veridical.text.citations import footnote_definitions


def without_markup(text: str) -> str:
    """Replace the markup in `text` by spaces, such as tags, web addresses and list numbers. Line breaks are kept.

    >>> without_markup("It is <b>red</b> &amp; [old](https://a.org/new).")
    'It is    red           [old]                   .'
    """
    if not _MAY_HOLD.search(text):
        return text
    marks = [Span(*match.span()) for match in _MARKUP.finditer(text)]
    marks += [Span(*match.span()) for match in _ENTITY.finditer(text) if not html.unescape(match[0]).isalnum()]
    marks += [span for span, _, _ in footnote_definitions(text)]
    heading = _SOURCES.search(text)
    items = [line for line in text[heading.end() :].split("\n") if line.strip()] if heading else []
    if heading and items and text[: heading.start()].strip():
        listed = all(_LISTED.match(line) or _REFERENCE.search(line) for line in items)
        if listed and sum(_REFERENCE.search(line) is not None for line in items) * 2 >= len(items):
            marks.append(Span(heading.start(), len(text)))
    return blanked(text, [*marks, *list_numbers(text, inline=True)])


def blanked(text: str, spans: Iterable[Span]) -> str:
    """Replace the characters of `text` in `spans` by spaces. Line breaks are kept."""
    return "".join(_IN_LINE.sub(" ", part) if inside else part for part, inside in cut(text, list(spans)))


def list_numbers(text: str, *, inline: bool = False) -> list[Span]:
    """Find the numbers of list items, at the beginning of lines and in a series ("1. low pay 2. long hours").

    If `inline` is set, only the numbers of a series within one line are returned.

    >>> text = "Reasons: 1. low pay 2. long hours"
    >>> [span.of(text) for span in list_numbers(text)]
    ['1.', '2.']
    """
    numbers = [] if inline else [Span(*match.span("number")) for match in _AT_LINE.finditer(text)]
    series: list[re.Match[str]] = []
    for match in _INLINE.finditer(text):
        previous = series[-1] if series else None
        if previous is not None and (
            int(match["n"]) != int(previous["n"]) + 1
            or match["open"] + match["close"] != previous["open"] + previous["close"]
            or "\n" in text[previous.end() : match.start()]
        ):
            numbers += _spans(series)
            series = []
        before = text[max(0, match.start() - 3) : match.start()].rstrip(" \t")[-1:]
        opens = match["n"] == "1" and (before in "\n:;,.!?—–" or match["next"].islower())
        if series or opens:
            series.append(match)
    return sorted({*numbers, *_spans(series)})


def _spans(series: list[re.Match[str]]) -> list[Span]:
    return [Span(*match.span("number")) for match in series] if len(series) > 1 else []


_MAY_HOLD = re.compile(
    r"[<&\\`~\]]|://|www\.|\b1[.)] |^[ \t#*_]*+(?:sources|references|bibliography|citations|works)",
    re.IGNORECASE | re.MULTILINE,
)
_TAGS = (
    "a|abbr|article|b|blockquote|body|br|button|center|cite|code|details|div|dl|dt|dd|em|figcaption|"
    "figure|font|footer|h[1-6]|head|header|hr|html|i|img|input|kbd|label|li|link|main|mark|meta|nav|ol|p|"
    "pre|q|s|samp|script|section|small|span|strike|strong|style|sub|summary|sup|table|tbody|td|tfoot|th|"
    "thead|title|tr|u|ul|var|video"
)
_COMMANDS = (
    "alpha|approx|begin|beta|bf|bullet|cdot|cdots|circ|cite|delta|displaystyle|div|dots|emph|end|epsilon|"
    "equiv|eta|frac|dfrac|tfrac|gamma|ge|geq|hat|infty|int|item|kappa|label|lambda|ldots|le|left|leq|lim|"
    "ln|log|mathbb|mathbf|mathcal|mathit|mathrm|mathsf|mu|nabla|neq|ne|nu|omega|operatorname|overline|"
    "partial|phi|pi|pm|prod|psi|quad|qquad|ref|rho|right|rightarrow|sigma|sim|sqrt|sum|tag|tau|text|"
    "textbf|textit|textrm|theta|times|to|underline|vec|xi|zeta"
)
_MARKUP = re.compile(
    r"^[ \t]*(?:```|~~~)[^\n`]*$"  # a code fence with its language
    rf"|<!--(?:[^<-]|<(?!!--)|-(?!->)){{0,2000}}+-->|</?(?:{_TAGS})(?:\s[^<>\n]{{0,500}})?/?>"
    # the target of a link: in brackets after its text, or on a line of its own
    r"|(?<=\])\((?=<|[^\s()]*[/.#:@])(?:<[^<>\n]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+[\"'(][^\n]{0,200}?[\"')])?\)"
    r"|^[ \t]{0,3}\[[^\]\n^]{1,80}\]:[ \t]+<?(?:https?://|www\.|/)\S+[^\n]*$"
    r"|<?\b(?:https?|ftp)://[^\s<>\"”)\]]+>?|\bwww\.[^\s<>\"”)\]]+"
    r"|\\(?:begin|end)\{[^{}\n]{1,40}\}"
    rf"|\\(?:{_COMMANDS})(?![A-Za-z])\*?|\\[()\[\]]",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
_IN_LINE = re.compile(r"[^\n]")
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{1,6}|#[xX][0-9A-Fa-f]{1,6});")
_SOURCES = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?[*_]{0,3}(?:sources|references|bibliography|citations|works cited)(?: used)?"
    r"[*_]{0,3}:?[*_]{0,3}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED = re.compile(r"[ \t]*(?:[-*+•]|\(?\d{1,3}[.)]|\[\^?[^\]\s]{1,20}\]:?)[ \t]*\S")
_REFERENCE = re.compile(
    r"https?://|www\.|\[\^?\d{1,3}\]|\b(?:1[5-9]|20)\d\d\b|\.(?:pdf|txt|md|html?|docx?|csv|json)\b"
    r"|\bpp?\. ?\d|\bet al\b|\bdoi\b|^\W*(?:source|document|doc|passage|page|chapter|section|article)\b",
    re.IGNORECASE,
)
_AT_LINE = re.compile(r"^[ \t>*_•–-]*(?P<number>\(?\d{1,3}(?:\.\d{1,2})*[.)])(?=[*_]*[ \t]+\S)", re.MULTILINE)
_INLINE = re.compile(
    r"(?<![^\s:;,(])(?P<number>(?P<open>\(?)(?P<n>\d{1,2})(?P<close>[.)]))(?=[ \t]+(?P<next>[^\W\d_*]))"
)
