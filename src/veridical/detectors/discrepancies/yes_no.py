"""Find sentences that contradict a "no" or "yes" in the sources.

The yes or no may be the answer to the question before it ("No."), a cell of a table, or the value of a field, as in
`Pets: no` or `"pets_allowed": false`. An empty cell and `null` also mean no.

A sentence contradicts this yes or no only if the sentence has all content words of the question, or of the field and
the name of its row.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.detectors.explanation.contradiction import negating
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.mentions import Sentence, index_of
from veridical.text.quantities import fold, keys
from veridical.text.segment import sentences, word_forms

_YES = r"yes|yep|yeah|true|y|✓|✔|✅|☑"
_NO = r"no|nope|none|false|null|n/?a|✗|✘|❌|☐|✕|-|–|—|not available|unavailable|not included|not offered|not allowed"
_AUXILIARY = (
    "do|does|did|is|are|was|were|am|can|could|will|would|shall|should|may|might|must|have|has|had|isn['’]t|aren['’]t|"
    "don['’]t|doesn['’]t"
)
_LABEL = (
    r"[ \t>*_#•+-]{0,9}(?:(?:[A-Z][\w .'’-]{0,30}|Q\d{0,3}|A\d{0,3})[*_]{0,2}[:.)][*_]{0,2}[ \t]{0,4})?[*_\"“]{0,3}"
)
_QUESTION = re.compile(
    rf"{_LABEL}(?P<asked>(?:so,? |and )?(?:{_AUXILIARY})\b[^?]{{3,200}})\?[*_\"”]{{0,4}}\s*", re.IGNORECASE
)
_ANSWER = re.compile(
    rf"{_LABEL}(?:(?P<yes>yes|yep|yeah|certainly|of course|absolutely|sure|correct)|"
    r"(?P<no>no|nope|never|not (?:yet|at all|currently|anymore)|(?:unfortunately|sorry),? (?:no|not|we do not|"
    r"we don['’]t)))"
    r"(?![\w-])(?! (?:one|more|longer|matter|problem)\b)",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"^[ \t>*•+-]*+\|?[ \t]*+[*_]{0,2}(?P<key>[^\W\d][^:=|\n]{1,59}?)[*_]{0,2}[ \t]*(?::|=|\|)[ \t]*[*_]{0,2}"
    rf"(?:(?P<yes>{_YES})|(?P<no>{_NO}))[*_]{{0,2}}[ \t.,;]*+(?:\|[ \t]*+)?$",
    re.IGNORECASE | re.MULTILINE,
)
_JSON_FIELD = re.compile(
    r'"(?P<key>[^"\n]{2,60})"\s{0,4}:\s{0,4}(?:(?P<yes>true|"(?:yes|true)")|'
    r'(?P<no>false|null|""|\[\s?\]|\{\s?\}|"(?:no|none|false|n/?a)"))(?=\s{0,20}[,}\]])',
    re.IGNORECASE,
)
_DIVIDER = re.compile(r"[|\t;]")
_ROW = re.compile(r"^[^\n]*[|\t;][^\n]*$", re.MULTILINE)
_CELL = re.compile(rf"[*_ ]*+(?:(?P<yes>{_YES})|(?P<no>{_NO}|))[*_ .]*+", re.IGNORECASE)
_GENERIC = frozenset(  # stems that do not say what is there, or allowed
    "avail includ allow offer provid support enabl permit accept possibl exist ye no it get got come".split()  # noqa: SIM905
)
_ASSERTS = re.compile(  # says that something is there, or may be done
    r"\b(?:has|have|had|with|there(?:['’]s| is| are)|includ\w*|offer\w*|provid\w*|available|allow\w*|permit\w*|"
    r"accept\w*|support\w*|enabl\w*|equipped|comes?|gets?|welcome|yes|can|may|possible|not|no|without|lacks?|never)\b|n['’]t\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:unavailable|prohibit\w*|forbid\w*|forbidden|banned|exclud\w*|lack\w*|missing|refus\w*|denie[sd]|unable|"
    r"disabled|unsupported|nowhere|fails?|failed|declin\w*|impossible|off|closed|incorrect|false|untrue)\b",
    re.IGNORECASE,
)
_HEDGES = re.compile(
    r"\b(?:if|unless|except\w*|only|but|however|although|though|some|most|sometimes|might|perhaps|maybe|unclear|unknown|"
    r"whether|depend\w*|used to|former\w*|will|would|soon|or|other|than)\b|\?",
    re.IGNORECASE,
)
_LONGEST = 100_000  # characters of a source
_RECORD = 300  # characters of a record before a field
_MOST = 2000  # answers of a source
_SHARE = 0.5  # least share of the content words of a sentence that an answer is about


@dataclass(frozen=True, slots=True)
class _Answer:
    """A yes or no in a source.

    `about` contains the stems of what is affirmed or denied, and `row` those of the table row or record that it belongs
    to.
    """

    about: frozenset[str]
    row: frozenset[str]
    is_yes: bool
    span: Span
    written: str

    @property
    def specific(self) -> frozenset[str]:
        """The stems that tell what the answer is about.

        General stems such as that of "available" count only if there are no others.
        """
        return self.about - _GENERIC or self.about


def yes_no_discrepancies(case: Case) -> Iterator[Discrepancy]:
    """Yield sentences of the response that affirm what a source answers with no, or deny what it answers with yes.

    The source may answer a question, or have yes or no in a field or table cell.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "We ship to Norway.", (Source("s", "Do you ship to Norway? No."),))
    >>> [each.reason for each in yes_no_discrepancies(case)]
    ['the source has “Do you ship to Norway? No”']
    """
    ours = list(_in_tables(case.response))
    rows: set[Span] = set()  # each row is reported once
    for source in case.sources if ours else ():
        theirs = {(answer.about, answer.row): answer for answer in _answers(source.text)}
        for own in ours:
            other = theirs.get((own.about, own.row))
            if other is not None and other.is_yes != own.is_yes and own.span not in rows:
                rows.add(own.span)
                reason = f"the source has “{other.written}”"
                yield Discrepancy(own.span, "negation", reason, None, passage(source, other.span))
    for sentence, source_i, answer, agrees in _compared(case):
        if not agrees:
            source = case.sources[source_i]
            reason = f"the source has “{answer.written}”"
            yield Discrepancy(sentence.span, "negation", reason, None, passage(source, answer.span))


def confirmed(case: Case) -> Iterator[Span]:
    """Yield sentences of the response that agree with a yes or no in a source ("Do you ship to Norway? Yes.").

    The yes or no may answer a question, or stand in a field or table cell. All content words of the sentence must occur
    in the sources, so that it says nothing else.
    """
    index = index_of(tuple(source.text for source in case.sources))
    for sentence, _, _, agrees in _compared(case):
        unknown = [t for t in sentence.tokens if t.keys and not any(k in index or k in _GENERIC for k in t.keys)]
        if agrees and not unknown:
            yield sentence.span


def _compared(case: Case) -> Iterator[tuple[Sentence, int, _Answer, bool]]:
    """Yield each sentence of the response that a yes or no in a source is about.

    Each sentence comes with the index of the source, the yes or no, and whether the sentence agrees with it.
    """
    by_stem: defaultdict[str, list[tuple[int, _Answer]]] = defaultdict(list)
    for i, source in enumerate(case.sources):
        for answer in _answers(source.text):
            by_stem[min(answer.specific)].append((i, answer))
    for sentence in index_of((case.response,)).sentences if by_stem else ():
        text = sentence.span.of(case.response)
        if _HEDGES.search(text) or (_ROW.search(text) and len(_DIVIDER.findall(text)) > 1):
            continue  # unclear, or a row of a table
        stems = sentence.positions.keys()
        about = [pair for stem in stems for pair in by_stem.get(stem, ()) if _is_about(pair[1], stems, text)]
        fits = [(len(answer.about & stems), len(answer.row & stems)) for _, answer in about]
        best = max(fits, default=None)
        about = [pair for pair, fit in zip(about, fits, strict=True) if fit == best]
        if len({answer.is_yes for _, answer in about}) == 1:
            i, answer = about[0]
            content = {token.keys[0] for token in sentence.tokens if token.keys} - _GENERIC
            if len(content & (answer.about | answer.row)) < _SHARE * len(content):
                continue  # the sentence is about a special case
            negated = (len(negating(sentence)) + (_DENIES.search(text) is not None)) % 2 == 1
            yield sentence, i, answer, answer.is_yes != negated


def _is_about(answer: _Answer, stems: Set[str], text: str) -> bool:
    """Check whether a sentence with these stems affirms or denies what the answer is about."""
    if not answer.specific <= stems:
        return False
    return (answer.about <= stems and len(answer.specific) > 1) or _ASSERTS.search(text) is not None


@lru_cache(maxsize=64)
def _answers(text: str) -> tuple[_Answer, ...]:
    """Find each yes and no in a source."""
    if len(text) > _LONGEST:
        return ()
    found = [*_to_questions(text), *_in_tables(text)]
    for match in (*_FIELD.finditer(text), *_JSON_FIELD.finditer(text)):
        near = text[max(0, match.start() - _RECORD) : match.start()] if match[0][0] == '"' else ""
        around = near[near.rfind("{") + 1 :]
        found += _answer(match["key"], around, match["yes"] is not None, Span(*match.span()), match[0].strip())
    different = {(answer.about, answer.row, answer.is_yes): answer for answer in reversed(found)}
    return tuple(different.values())[-_MOST:]


def _to_questions(text: str) -> Iterator[_Answer]:
    spans = sentences(text)
    for i, span in enumerate(spans):
        question = _QUESTION.match(span.of(text)) if "?" in span.of(text) else None
        if question is None:
            continue
        start = span.start + question.end()
        end = spans[i + 1].end if i + 1 < len(spans) else span.end
        answer = _ANSWER.match(text[start:end].lstrip())
        if answer is not None:
            asked = re.sub(rf"^(?:so,? |and )?(?:{_AUXILIARY})\b", "", question["asked"], flags=re.IGNORECASE)
            written = f"{question['asked']}? {(answer['yes'] or answer['no'])}"
            yield from _answer(asked, "", answer["yes"] is not None, Span(span.start, start), written)


def _in_tables(text: str) -> Iterator[_Answer]:
    """Find each yes and no in the cells of tables that have more than two columns and begin with a line of names."""
    heads: list[str] = []
    for match in _ROW.finditer(text):
        line = match[0].strip().strip("|")
        if re.fullmatch(r"[\s|:+-]+", line):
            continue
        cells = [cell.strip() for cell in _DIVIDER.split(line)]
        if len(cells) < 3 or len(cells) != len(heads):
            heads = cells
            continue
        for head, cell in list(zip(heads, cells, strict=True))[1:]:
            value = _CELL.fullmatch(cell)
            if value is not None:
                row = " ".join(other for other in cells if not _CELL.fullmatch(other))
                written = f"{cells[0]}, {head}: {cell}"
                yield from _answer(f"{cells[0]} {head}", row, value["yes"] is not None, Span(*match.span()), written)


def _answer(key: str, row: str, is_yes: bool, span: Span, written: str) -> Iterator[_Answer]:
    words = word_forms(re.sub(r"[_-]|(?<=[a-z])(?=[A-Z])", " ", key))
    if any(word.lower() in ("no", "not", "non", "without") for word in words):
        return
    about = _stems(words)
    if about:
        yield _Answer(about, _stems(word_forms(row)), is_yes, span, " ".join(written.split()))


def _stems(words: Sequence[str]) -> frozenset[str]:
    return frozenset(key for word in words for key in keys(fold(word))[:1])
