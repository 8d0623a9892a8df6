"""Find values that belong to another name in the sources, such as the small tent's price for the large tent.

Names and values are taken from the rows of tables, from JSON objects, and from sentences and lines that differ only in
a name and its values.

A sentence refers to a row if it has all words that distinguish this row from the others, and no word that distinguishes
another row from this one. It refers to a cell by the column heading, or by the key in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, groupby, takewhile
from typing import Any

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.detectors.explanation.contradiction import negating
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.counterparts import bound, in_name
from veridical.text.json_records import json_records
from veridical.text.mentions import Mention, Sentence, SentenceIndex, Token, index_of, word_pattern
from veridical.text.quantities import fold, implies, in_sentence, is_value, keyed, keys
from veridical.text.segment import word_forms

_LONGEST = 100_000  # characters of a source; JSON of services is smaller
_MOST = 2000  # rows of a source
_LONGEST_AMOUNT = 16  # characters of a cell that is an amount, with its unit
_DERIVED = re.compile(
    r"\b(?:more|less|fewer|than|total|altogether|together|sum|combined|average|mean|difference|increase\w*|"
    r"decrease\w*|rose|fell|both|each|per|about|around|over|under|least|most)\b",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"\b(?:if|unless|instead|unlike|others?|another|not|either|or|would|whereas|while|compared|versus|vs|except|all)\b|\?",
    re.IGNORECASE,
)
_DIVIDERS = ("\t", "|", ";", ",")
_RULE = re.compile(r"[\s|:+-]+")
_HTML_ROW = re.compile(r"<tr\b[^<>]*+>", re.IGNORECASE)
_HTML_CELL = re.compile(r"<t[dh]\b[^<>]*+>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*+>")
_LINE = re.compile(r"[ \t]*+(?:[*•+-][ \t]++)?(?P<name>[^:|=\t\n–—]{1,60}?)[ \t]*(?:[:|=\t]|[–—] )[^\n]*")
_BETWEEN = re.compile(r"[;,] (?:(?:and|but|while|whereas) )?| (?:and|but|while|whereas) ")
_LONGEST_SENTENCE = 400  # characters of a sentence that is read by clauses
_OFTEN = 3  # a value in more sentences than this says nothing about where it belongs
_COMMON = 100  # a word in more sentences than this does not identify a name by itself
_LONGEST_NAME = 4  # most words in which two sentences may differ
_SMALL = 12  # numbers up to this may be equal by chance
_NUMERAL = re.compile(r"[0-9](?:[0-9.,]*[0-9])?")


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in a source: the value as written, and the keys of all values that it supports in another text."""

    form: str
    implied: frozenset[str]

    @property
    def kind(self) -> str:
        """What the value measures ("q:eur"), "n" for a plain number, or another family of keys."""
        return _kind(keys(self.form)[0])


@dataclass(frozen=True)
class _Cell:
    """A cell of a row: the stems of its key, its text, the stems of the words in its text, and its values."""

    key: frozenset[str]
    text: str
    words: frozenset[str]
    values: tuple[_Value, ...] = ()

    @cached_property
    def implied(self) -> frozenset[str]:
        """All keys that the cell's values support in another text."""
        return frozenset(chain.from_iterable(value.implied for value in self.values))

    @cached_property
    def is_amount(self) -> bool:
        """Whether the cell is one amount and nothing else."""
        return len(self.text) <= _LONGEST_AMOUNT and [value.kind[:1] for value in self.values] in (["n"], ["q"])


def _kind(key: str) -> str:
    return key.rpartition(":")[0] if key.startswith("q:") else key.partition(":")[0]


_Row = Mapping[str, _Cell]  # the cells by their columns


@dataclass(frozen=True)
class _Table:
    """The rows of a table or of a list of JSON objects, and its place in the source."""

    rows: tuple[_Row, ...]
    span: Span

    @cached_property
    def names(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The name of each row as written, with its stems.

        The name is the text in the first column whose texts differ in all rows. If there is no such column, it is all
        texts of the row.
        """
        texts = [{column: cell for column, cell in row.items() if cell.words and not cell.values} for row in self.rows]
        for column in texts[0]:
            cells = [row[column] for row in texts if column in row]
            if len({cell.words for cell in cells}) == len(self.rows):
                return tuple((cell.text, cell.words) for cell in cells)
        return tuple(
            (
                " ".join(cell.text for cell in row.values()),
                frozenset[str]().union(*(cell.words for cell in row.values())),
            )
            for row in texts
        )


def row_discrepancies(case: Case) -> Iterator[Discrepancy]:
    r"""Yield values of the response that a source has in another row or cell than the one that the sentence is about.

    Rows are found in tables, in JSON, and in lines or sentences that differ only in a name and its values. The value in
    the right row and cell becomes the correction, if it is clear.

    >>> from veridical.records.types import Source
    >>> tents = Source("s", "Small tent: 60 euros\nLarge tent: 90 euros")
    >>> case = Case("1", "The large tent costs 60 euros.", (tents,))
    >>> [(each.span.of(case.response), each.correction, each.reason) for each in row_discrepancies(case)]
    [('60 euros', '90 euros', '60 euros is for “Small tent”; the source has 90 euros for “Large tent”')]
    """
    sources = index_of(tuple(source.text for source in case.sources))
    for sentence in index_of((case.response,)).sentences:
        numbers = [mention for mention in sentence.mentions if not mention.is_name and mention.keys]
        if not numbers or _DERIVED.search(sentence.span.of(sentence.text)):
            continue
        found: list[Discrepancy] = []
        for i, source in enumerate(case.sources):
            for table in _tables(source.text):
                found = found or list(_in_table(sources, sentence, numbers, i, source, table))
        yield from found or _in_parallel(case, sources, sentence, numbers)


# ----------------------------------------------------------------------------------------------------- tables


def _in_table(
    sources: SentenceIndex, sentence: Sentence, numbers: Sequence[Mention], source_i: int, source: Source, table: _Table
) -> Iterator[Discrepancy]:
    stems = sentence.positions.keys()
    row_i = _named([name for _, name in table.names], stems)
    if row_i is None:
        return
    row, title = table.rows[row_i], table.names[row_i][0]
    named = [column for column, cell in row.items() if cell.is_amount and cell.key and cell.key <= stems]
    stated = [cell.implied for column, cell in row.items() if column in named or not (named and cell.is_amount)]
    if any(not implied.isdisjoint(number.keys) for implied in stated for number in numbers):
        return  # of several values, one may belong to a cell that is not named
    for number in numbers:
        places = [
            (i, column, k)
            for i, other in enumerate(table.rows)
            for column, cell in other.items()
            for k, value in enumerate(cell.values)
            if not value.implied.isdisjoint(number.keys)
        ]
        if in_name(sentence, number) or not places:
            continue
        is_clear = len({column for _, column, _ in places}) == 1 < len(table.rows)
        other_i, column, k = next((place for place in places if place[1] in named), places[0])
        if named:
            if not any(table.rows[i][c].is_amount for i, c, _ in places):
                continue
            column = column if column in named else named[0]
        elif not (is_clear and _is_plain(sentence, number) and _only_in(sources, number, source_i, table.span)):
            continue
        theirs, values = table.rows[other_i].get(column), row[column].values if column in row else ()
        alike = theirs is not None and [value.kind for value in theirs.values] == [value.kind for value in values]
        if not named and (not alike or (values[k].kind == "n" and not row[column].words & stems)):
            continue
        new = None if len(named) > 1 or not values else values[k if alike else 0]
        elsewhere = table.names[other_i][0] if alike and other_i != row_i else None
        yield _discrepancy(sentence, number, new, title, elsewhere, source, table.span)


def _named(names: Sequence[Set[str]], stems: Set[str]) -> int | None:
    """Return the index of the only name that a sentence has, or None if there is no such name.

    The sentence must have all words that distinguish the name from the others, and no word that distinguishes another
    name from it. If there is only one name, its index is returned.
    """
    if len(names) == 1:
        return 0
    common = frozenset(names[0]).intersection(*names[1:])
    own = [name - common for name in names]
    named = [i for i, words in enumerate(own) if words and words <= stems and any(":" not in word for word in words)]
    best = max(named, key=lambda i: len(own[i]), default=None)
    if best is None or any(not (words - own[best]).isdisjoint(stems) for words in own):
        return None
    return None if any(i != best and own[i] == own[best] for i in named) else best


def _only_in(sources: SentenceIndex, number: Mention, source_i: int, place: Span) -> bool:
    """Check whether the sources have a value only in one place."""
    with_value = (sources.sentences[i] for key in number.keys for i in sources.with_key(key))
    return all(each.text_i == source_i and each.span.overlaps(place) for each in with_value)


def _is_plain(sentence: Sentence, number: Mention) -> bool:
    """Check whether a sentence states a value without a bound, a negation or a condition."""
    if bound(sentence, number) or negating(sentence):
        return False
    return _OTHERWISE.search(sentence.span.of(sentence.text)) is None


def _discrepancy(
    sentence: Sentence,
    number: Mention,
    new: _Value | None,
    title: str,
    elsewhere: str | None,
    source: Source,
    span: Span,
) -> Discrepancy:
    old = number.span.of(sentence.text)
    correction = None if new is None else _as_in(old, number, new)
    start = source.text.find(title, span.start, span.end) if title else -1
    evidence = passage(source, Span(max(start, span.start), span.end))
    has = f"the source has {correction} for “{title}”" if title else f"the source has {correction}"
    if correction is None:
        reason = f"{old} is in another place of the source"
    elif elsewhere:
        reason = f"{old} is for “{elsewhere}”; {has}"
    else:
        reason = f"{has}, not {old}"
    kind = "time" if number.keys[0][0] in "td" else "value"
    return Discrepancy(number.span, kind, reason, correction, evidence)


def _as_in(old: str, number: Mention, new: _Value) -> str:
    """Write a source's value in the form of the value that it corrects.

    If only one of the two has a unit, only the number is replaced.

    >>> _as_in("60 euros", Mention("money", Span(0, 8), 0, 0, ("q:eur:60",)), _Value("90", frozenset({"n:90"})))
    '90 euros'
    """
    numeral, start = _NUMERAL.search(new.form), keyed(new.form)[0]
    units = {_kind(number.keys[0]), new.kind}
    if numeral and (start or (len(units) == 2 and "n" in units)) and len(_NUMERAL.findall(old)) == 1:
        return _NUMERAL.sub(_NUMERAL.search(new.form, start)[0], old)  # type: ignore[index]
    return in_sentence(new.form)


@lru_cache(maxsize=64)
def _tables(text: str) -> tuple[_Table, ...]:
    """Find the tables in a source whose columns have names, and the lists of objects in its JSON."""
    if len(text) > _LONGEST:
        return ()
    found: list[_Table] = []
    for start in json_records(text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        groups = list(_objects(value, "", {}))
        found += [_Table(tuple(rows), Span(start, end)) for rows in groups if len(rows) > 1 or len(groups) == 1]
    found += () if found else _of_html(text) if _HTML_ROW.search(text) else _of_lines(text)
    return tuple(_Table(table.rows[:_MOST], table.span) for table in found)


def _objects(value: Any, name: str, around: Mapping[str, _Cell]) -> Iterator[list[_Row]]:
    """Yield the objects of each list in JSON as rows. An object outside of a list is a single row.

    Each row also has the texts of the objects around it.
    """
    if isinstance(value, list):
        groups = [list(_objects(item, name, around)) for item in value]
        own = [group[0][0] for item, group in zip(value, groups, strict=True) if isinstance(item, dict) and group]
        if own:
            yield own
        for item, group in zip(value, groups, strict=True):
            yield from group[1:] if isinstance(item, dict) else group
    elif isinstance(value, dict):
        own_cells = {
            key: _cell(key, str(inner), name)
            for key, inner in value.items()
            if isinstance(inner, str | int | float) and not isinstance(inner, bool)
        }
        yield [{**around, **own_cells}]
        texts = {**around, **{key: cell for key, cell in own_cells.items() if not cell.values}}
        for key, inner in value.items():
            yield from _objects(inner, key, texts)


def _of_html(text: str) -> Iterator[_Table]:
    starts = [match.start() for match in _HTML_ROW.finditer(text)]
    spans = [Span(start, end) for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    rows = [(span, _HTML_CELL.split(span.of(text))[1:]) for span in spans]
    yield from _with_heads([(span, [" ".join(_TAG.sub(" ", cell).split()) for cell in cells]) for span, cells in rows])


def _of_lines(text: str) -> Iterator[_Table]:
    lines = [(Span(*match.span()), match[0].strip().strip("|")) for match in re.finditer(r"[^\n]+", text)]
    lines = [(span, line) for span, line in lines if line and not _RULE.fullmatch(line)]
    for divider in _DIVIDERS:
        if divider in text:
            found = list(_with_heads([(span, [cell.strip() for cell in line.split(divider)]) for span, line in lines]))
            if found:
                yield from found
                return


def _with_heads(lines: Sequence[tuple[Span, list[str]]]) -> Iterator[_Table]:
    """Yield each run of lines with the same number of cells, if its first line has the names of the columns."""
    for width, run in groupby(lines, key=lambda line: len(line[1])):
        (first, heads), *body = run
        plain = all(heads) and len(set(heads)) == len(heads) and not any(map(_has_digit, heads))
        if width > 1 and len(body) > 1 and plain and any(_has_digit(cell) for _, cells in body for cell in cells):
            rows = tuple(
                {head: _cell(head, cell) for head, cell in zip(heads, cells, strict=True)} for _, cells in body
            )
            yield _Table(rows, Span(first.start, body[-1][0].end))


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


def _cell(name: str, text: str, around: str = "") -> _Cell:
    """Build a cell from a key and its text.

    If the last word of the key is the unit of a value, the other words become the key. If there are none, the name of
    the enclosing object (`around`) becomes the key.
    """
    *first, last = re.sub(r"[_\-]|(?<=[a-z])(?=[A-Z])", " ", name).split() or [""]
    if not _has_digit(text):
        return _Cell(_stems([*first, last]), text, _stems(word_forms(text)))
    folded = fold(f'"{last}": {text}')
    forms = word_pattern(folded).findall(folded)
    key = first or word_forms(around) if any(keyed(form)[1] for form in forms) else [*first, last]
    values = tuple(_Value(form, frozenset(implies(form))) for form in forms if is_value(form))
    words = _stems(form for form in forms if not is_value(form)) - _stems([last])
    return _Cell(_stems(key), text, words, values)


def _stems(words: Iterator[str] | Sequence[str]) -> frozenset[str]:
    return frozenset(key for word in words for key in keys(fold(word)))


# ----------------------------------------------------------------------------- sentences that differ in a name


def _in_parallel(
    case: Case, sources: SentenceIndex, sentence: Sentence, numbers: Sequence[Mention]
) -> Iterator[Discrepancy]:
    """Find values that belong to another name, by comparing parallel sentences of the sources.

    One source sentence has the value with another name, and a similar one has the name in the response with another
    value.
    """
    stems = sentence.positions.keys()
    for number in numbers:
        if any(len(sources.with_key(key)) > _OFTEN for key in number.keys):
            continue
        with_value = sorted({i for key in number.keys for i in sources.with_key(key)})
        if len(with_value) > _OFTEN or in_name(sentence, number):
            continue
        options: dict[frozenset[str], tuple[Sentence, Sentence, _Value, int]] = {}
        others: list[Sentence] = []  # sentences and clauses with the value
        for i in with_value:
            clauses = _clauses(sources.sentences[i])
            theirs = [each for each in clauses if any(key in each.positions for key in number.keys)]
            others += theirs
            new = [stem for stem in stems if stem not in sources.keys[i] and ":" not in stem]
            found = [(each, i) for each in clauses if each not in theirs]
            with_name = (places for stem in new if len(places := sources.with_key(stem)) <= _COMMON)
            found += ((sources.sentences[k], k) for k in set(chain.from_iterable(with_name)))
            for one in theirs:
                for two, k in found:
                    row = None if k in with_value and k != i else _differing(one, two, number, stems)
                    if row is not None:
                        options[row[0]] = (one, two, row[1], k)
        best = max(options, key=len, default=None)
        if best is None or any(not name <= best for name in options):
            continue
        one, two, value, k = options[best]
        if any(_differing(each, two, number, stems) is None for each in others):
            continue  # the value stands with something else, too
        if _is_plain(sentence, number) and all(value.implied.isdisjoint(other.keys) for other in numbers):
            source, span = case.sources[two.text_i], sources.sentences[k].span
            yield _discrepancy(sentence, number, value, _name(two, one), _name(one, two), source, span)


def _clauses(sentence: Sentence) -> list[Sentence]:
    """Split a sentence with several values or names into clauses. Any other sentence stays whole."""
    text = sentence.span.of(sentence.text)
    parts = _BETWEEN.split(text) if len(text) <= _LONGEST_SENTENCE and len(sentence.mentions) > 1 else ()
    clauses = []
    for part in parts if len(parts) > 1 else ():
        folded = fold(part)
        clauses.append(Sentence(part, folded, word_pattern(folded), Span(0, len(part)), sentence.text_i))
    return clauses or [sentence]


def _differing(
    theirs: Sentence, ours: Sentence, number: Mention, stems: Set[str]
) -> tuple[frozenset[str], _Value] | None:
    """Compare two source sentences, and return the name in `ours` and its value where `theirs` has `number`.

    The name is returned as its stems. Return None if the sentences differ in more than a name and values, or if the
    response, whose stems are `stems`, does not have the name of `ours` alone.
    """
    if theirs.text_i != ours.text_i or abs(len(theirs.tokens) - len(ours.tokens)) >= _LONGEST_NAME:
        return None
    before, after = _common(theirs, ours)
    one, two = theirs.tokens[before : len(theirs.tokens) - after], ours.tokens[before : len(ours.tokens) - after]
    if not (0 < len(one) <= _LONGEST_NAME and 0 < len(two) <= _LONGEST_NAME):
        return None
    names = [frozenset(key for token in tokens for key in token.keys) for tokens in (one, two)]
    if any(":" in key for name in names for key in name) or not names[1] - names[0] or not names[1] - names[0] <= stems:
        return None
    if not (names[0] - names[1]).isdisjoint(stems) or not names[0] - names[1]:
        return None
    common = [*theirs.tokens[:before], *theirs.tokens[len(theirs.tokens) - after :]]
    words = {key for token in common for key in token.keys if ":" not in key}
    own = [i for i, token in enumerate(theirs.tokens) if not set(number.keys).isdisjoint(implies(token.form))]
    if len(own) != 1 or 2 * len(words & stems) < len(words):
        return None
    at = own[0] if own[0] < before else own[0] - len(theirs.tokens) + len(ours.tokens)
    form = ours.tokens[at].form
    value = _Value(form, frozenset(implies(form)))
    is_line = len(theirs.text) > len(theirs.span) and _LINE.fullmatch(theirs.span.of(theirs.text)) is not None
    if not value.implied.isdisjoint(number.keys) or not (words or is_line):
        return None
    if value.kind == "n":  # a plain number is identified by the word beside it, or by its size
        beside = {key for token in theirs.tokens[max(0, own[0] - 2) : own[0] + 3] for key in token.keys} & words
        if not beside & stems and (beside or abs(float(Fraction(number.keys[0][2:]))) <= _SMALL):
            return None
    return names[1] - names[0], value


def _alike(pair: tuple[Token, Token]) -> bool:
    one, two = pair
    if one.form == two.form:
        return True
    values = is_value(one.form) and is_value(two.form)
    return values and _kind(keys(one.form)[0]) == _kind(keys(two.form)[0])


def _common(one: Sentence, two: Sentence) -> tuple[int, int]:
    """Count the words that two sentences share from the beginning, and from the end.

    Two values of the same kind count as the same word.
    """
    pairs = [(one.tokens, two.tokens), (one.tokens[::-1], two.tokens[::-1])]
    before, after = (sum(1 for _ in takewhile(_alike, zip(a, b, strict=False))) for a, b in pairs)
    after = min(after, len(one.tokens) - before, len(two.tokens) - before)
    return before, after


def _name(sentence: Sentence, other: Sentence) -> str:
    """Return the words in which a sentence differs from another one.

    For a line such as "Small tent: 60 euros", return the words before the colon.
    """
    line = _LINE.fullmatch(sentence.span.of(sentence.text))
    if line is not None:
        return line["name"]
    before, after = _common(sentence, other)
    first, last = sentence.tokens[before], sentence.tokens[len(sentence.tokens) - after - 1]
    return sentence.text[first.span.start : last.span.end]
