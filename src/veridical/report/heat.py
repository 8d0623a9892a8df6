"""Show a response with its words shaded by their scores (Liu et al. 2022, Figure 5), in the terminal and on the page.

You can use this for any judgement with verdicts on words, tokens or spans. The score of a word is the highest score of
the verdicts that overlap it. Words that were not judged have no score and are shown in a different style.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from veridical.records.spans import Span
from veridical.records.strings import visible
from veridical.records.types import Case, Decision, Judgement, judged_spans
from veridical.report.judgement_view import number
from veridical.report.pages import render
from veridical.text.segment import words

if TYPE_CHECKING:
    from rich.text import Text

SHADES = 10  # each a tenth of the scores from 0 to 1
_HIGHEST = 20  # words in the list of the highest scores
_LIGHT_INK = 7  # from this shade on the text is light, for better contrast
_PALETTE = (
    "#fff5eb",
    "#fee6ce",
    "#fdd0a2",
    "#fdb97d",
    "#fda057",
    "#f98838",
    "#ee6d1a",
    "#db5407",
    "#b83c02",
    "#8b2c04",
)


@dataclass(frozen=True, slots=True)
class HeatWord:
    """A word of a response in a heat view, where words are shaded by their scores.

    Attributes:
        before: The text between the previous word and this one.
        text: The word.
        score: The highest score of a verdict on the word, in [0, 1]. None if the word was not judged.
        flagged: True if a flagged verdict overlaps the word.
    """

    before: str
    text: str
    score: float | None
    flagged: bool

    @property
    def shade(self) -> int | None:
        """The shade of the word, from 0 (score below 0.1) to 9 (0.9 and above). None if the word has no score."""
        return None if self.score is None else min(int(self.score * SHADES), SHADES - 1)


@dataclass(frozen=True, slots=True)
class HeatView:
    """A response whose words are shaded by their scores, ready to be rendered.

    Attributes:
        words: The words of the response, in order.
        rest: The text after the last word.
        highest: The words with the highest scores, each as (word, score as text), highest first.
        unjudged: The number of words that were not judged.
    """

    words: tuple[HeatWord, ...]
    rest: str
    highest: tuple[tuple[str, str], ...]
    unjudged: int


def word_scores(case: Case, judgement: Judgement) -> list[tuple[Span, float | None]]:
    """Return each word of the response with the highest score of the verdicts that overlap it.

    A judged word without a verdict has the score 0, and a word that was not judged has the score None. A word counts as
    judged if a part of it was judged. The time is linear in the number of words plus the number of pairs of a word and
    an overlapping verdict.

    >>> from veridical.records.types import Verdict
    >>> judgement = Judgement("1", "someone", verdicts=(Verdict(Span(3, 5), 0.9), Verdict(Span(4, 9), 0.4)))
    >>> [score for _, score in word_scores(Case("1", "In 1999 it fell"), judgement)]
    [0.0, 0.9, 0.4, 0.0]
    """
    spans = words(case.response)
    ends = [span.end for span in spans]
    scores: list[float | None] = [None] * len(spans)
    judged = [(span, 0.0) for span in judged_spans(case, judgement)]
    for span, score in judged + [(verdict.span, verdict.score) for verdict in judgement.verdicts]:
        i = bisect_left(ends, span.start + 1)
        while i < len(spans) and spans[i].start < span.end and len(span):
            scores[i] = max(scores[i] or 0.0, score)
            i += 1
    return list(zip(spans, scores, strict=True))


def heat_view(case: Case, judgement: Judgement, decision: Decision) -> HeatView | None:
    """Prepare the heat view of a judgement, in which the words of the response are shaded by their scores.

    Return None if the judgement has no verdicts, or no word was judged.
    """
    scored = word_scores(case, judgement)
    if not judgement.verdicts or all(score is None for _, score in scored):
        return None
    flagged = tuple(judgement.verdicts[i] for i in decision.verdicts)
    flags = word_scores(case, Judgement(case.id, judgement.by, judged=(), verdicts=flagged))
    views: list[HeatWord] = []
    end = 0  # of the last word
    for (span, score), (_, flag) in zip(scored, flags, strict=True):
        before, text = visible(case.response, end, span.start), visible(case.response, span.start, span.end)
        views.append(HeatWord(before, text, score, flag is not None))
        end = span.end
    ranked = sorted((view for view in views if view.score), key=lambda view: -(view.score or 0.0))
    highest = tuple((view.text, number(view.score or 0.0)) for view in ranked[:_HIGHEST])
    unjudged = sum(view.score is None for view in views)
    return HeatView(tuple(views), visible(case.response, end, len(case.response)), highest, unjudged)


def heat_text(view: HeatView, *, plain: bool) -> Text:
    """Render the response for a terminal, with the scores as background colours.

    Flagged words are underlined, and words that were not judged are italic.

    If `plain` is true, characters replace all colours and styles. A word with a score of 0.1 or more is followed by the
    first decimal of its score ("1999{9}"). A flagged word is put in square brackets ("[1999{9}]"), and a word that was
    not judged is followed by "{?}".
    """
    from rich.text import Text

    result = Text()
    for word in view.words:
        result.append(word.before)
        if not plain:
            result.append(word.text, _style(word.shade, word.flagged))
            continue
        mark = "{?}" if word.shade is None else f"{{{word.shade}}}" if word.shade else ""
        result.append(f"[{word.text}{mark}]" if word.flagged else word.text + mark)
    result.append(view.rest)
    return result


def heat_legend(*, plain: bool) -> Text:
    """Render the legend that explains the colours of `heat_text`, or its characters if `plain` is true."""
    from rich.text import Text

    if plain:
        return Text("{1} … {9}: score of the word before in tenths, none below 0.1; [ ]: flagged; {?}: not judged")
    result = Text("Score ")
    for shade in range(SHADES):
        result.append(f" .{shade} ", _style(shade, flagged=False))
    result.append("  ")
    result.append("flagged", "bold underline")
    result.append("  ")
    return result.append("not judged", _style(None, flagged=False))


def _style(shade: int | None, flagged: bool) -> str:
    """Return the `rich` style of a word, which is dark text on a light shade or light text on a dark shade."""
    if shade is None:
        return "dim italic"
    ink = "#ffffff" if shade >= _LIGHT_INK else "#1a1a1a"
    return f"{'bold underline ' if flagged else ''}{ink} on {_PALETTE[shade]}" if shade or flagged else ""


def heat_style() -> str:
    """Return the style sheet of a page with heat views."""
    return render("heat.css", palette=_PALETTE, light_ink=_LIGHT_INK)
