"""Detect cases that are unlike a detector's training data (out of distribution), in less than 1 ms.

Such cases have, for example, texts in another language, code, tables, or texts of one word. A text that is too short
for one of these checks passes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from veridical.records.types import Case
from veridical.text.languages import LANGUAGES, language_of
from veridical.text.segment import words

TextForm = Literal["code", "table"]
_READ = 2400  # most characters to read of the response, and of all sources together
_LEAST_READ = 240  # characters to read of each source, even if there are many
_CODE_SHARE = 0.4  # least share of lines
_TABLE_SHARE = 0.5  # least share of characters
_MARKED_SHARE = 0.4  # least share of a line's characters
_LEAST_CAPITALS = 20  # letters

_SENTENCES = "this detector was trained on sentences, its scores mean less"
_LINE = 200  # characters to read of a line
_BLOCK = "case|class|def|elif|else|enum|except|finally|for|func|function|if|namespace|private|protected|public|static|"
_BLOCK += "struct|switch|try|void|while|with"
_CODE = re.compile(
    rf"(?:{_BLOCK})\b[^.]*[:;{{(}},]$"
    r"|(?:import|return|raise|const|let|var|using|package|assert|yield|print|echo|export)\b(?!.*[a-z][.,]$)"
    r"|from [\w.]+ import |(?:break|continue|else|try|pass)\b[:;{]?$"
    r"|[\[(]?[}\])]+[;,)]*$|\}|#(?:include|define|if|endif|pragma)|#!|//|/\*|\*/|@\w+(?:\(|$)"
    r"|(?:\w+ )?[\w.\[\]\"'*&$-]+ ?(?:[-+*/|&%:]|<<|>>)?= ?[^=\s]"  # x = 1
    r"|[\w.]+\([^)]*\)+[;:{]?$"  # call(x)
    r"|(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE|FROM|WHERE|GROUP BY|ORDER BY) "
)
_OPERATOR = re.compile(r"=>|->|&&|[=!]=|\+=|\$\{|\w\(\)")
_DIGIT = re.compile(r"\d")
_GAP = re.compile(r"\S(?: {3,}|\t)(?=\S)")  # between columns
_KEY = re.compile(r"(?:^(?:[-*#•] )?|[;|,{] ?)[\"']?([^\W_][\w %#&/()'-]{0,30})[\"']?:+ ?(?=\S)")  # of records
_SLOT = re.compile(r"(?<!\w)(?:\w++ )?+\w++\[[^\]]+\]")  # name[Cotto]
_CELL = re.compile(r",(?=[^\s\"'”’])")
_TAG = re.compile(r"</?\w[^<>]*>")


@dataclass(frozen=True, slots=True)
class Limit:
    """One way in which a case is unlike a detector's training data (out of distribution).

    Attributes:
        kind: One of "language", "languages differ", "code", "table", "capitals", "one-word response", "one-word
            sources" or "empty source".
        note: A sentence that tells the user about the limit.
        lowers_confidence: If true, the scores are less reliable, and the detector `default` moves them towards their
            thresholds. If false, the note is for information only.
    """

    kind: str
    note: str
    lowers_confidence: bool = True


@dataclass(frozen=True, slots=True)
class _Look:
    """The language and form of a text, and its number of words (0, 1, or 2 for two or more)."""

    language: str | None
    form: TextForm | None
    words: int


def limits_of(case: Case, languages: Collection[str] = ("en",)) -> tuple[Limit, ...]:
    """List the ways in which a case is unlike the training data of a detector that was trained on `languages`.

    For example, the case is in another language, has a table, or has a response of one word. Each of these becomes a
    `Limit` with a note for the user. The result is empty for an ordinary case.

    Args:
        case: The case.
        languages: The codes of the languages that the detector was trained on, such as "en" (the keys of
            `text.languages.LANGUAGES`).

    >>> from veridical.records.types import Source
    >>> tower = Source("a", "The tower is in Paris and was built in 1889.")
    >>> limits_of(Case("1", "Der Turm ist hoch und steht in Paris.", (tower,)))[0].note
    'the response looks German and the source English; this detector was trained on English, its scores mean less'
    """
    size = max(_READ // max(len(case.sources), 1), _LEAST_READ)
    sources = [_look(source.text, size) for source in case.sources]
    response = _look(case.response, _READ)
    limits = _of_languages(response, sources, languages)
    for form, what in (("code", "code"), ("table", "a table")):
        alike = [source.form == form for source in sources]
        if response.form == form:
            limits.append(Limit(form, f"the response looks like {what}; {_SENTENCES}"))
        elif any(alike) and 2 * sum(alike) >= len(alike):
            limits.append(Limit(form, f"{_named(alike)} like {what}; {_SENTENCES}"))
    letters = [char for char in case.response[:_READ] if char.isalpha()]
    if len(letters) >= _LEAST_CAPITALS and all(char.isupper() for char in letters):
        limits.append(Limit("capitals", "the response is all in capitals; names cannot be recognised in it"))
    if response.words == 1:
        limits.append(Limit("one-word response", f"the response is one word; {_SENTENCES}"))
    if sum(source.words for source in sources) == 1:
        limits.append(Limit("one-word sources", "the sources are one word; hardly anything can be found in them"))
    empty = sum(source.words == 0 for source in sources)
    if empty:
        which = "the source has" if len(sources) == 1 else f"{empty} of {len(sources)} sources have"
        limits.append(Limit("empty source", f"{which} no words", empty == len(sources)))
    return tuple(limits)


def form_of(text: str) -> TextForm | None:
    r"""Classify a text as "code", as "table", or as ordinary text (None), by the form of its lines.

    A text is code if enough of its lines look like code. It is a table if most of its characters are in rows. Markup,
    rows of numbers, and records with several fields count as rows, too.

    >>> form_of("def f(x):\n    return x + 1"), form_of("name: Oslo; people: 709,037"), form_of("Oslo is large.")
    ('code', 'table', None)
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    code = table = 0
    fields: Counter[str] = Counter()
    fenced = False
    for line in lines:
        fence = line.startswith("```")
        if fence or fenced or _is_code(line[:_LINE]):
            code += 1
        elif _is_row(line[:_LINE]):
            table += len(line)
        elif (key := _KEY.match(line)) and len(line) < _LINE and line[-1] not in ".!?":
            fields[key[1]] += len(line)
        fenced ^= fence
    if code > 1 and code >= _CODE_SHARE * len(lines):
        return "code"
    if len(fields) > 2:  # fields such as "born: 1931"; one or two names that repeat are speakers of a dialogue
        table += sum(fields.values())
    return "table" if table > _TABLE_SHARE * sum(map(len, lines)) else None


def _is_code(line: str) -> bool:
    return (
        _CODE.match(line) is not None
        or (line[-1] in ";{" and any(char in line for char in "=()[]{}<>"))
        or (line[-1] not in ".!?" and _OPERATOR.search(line) is not None)
    )


def _is_row(line: str) -> bool:
    if line.count("|") > 1 or line.count("\t") > 1 or ("   " in line and len(_GAP.findall(line)) > 1):
        return True
    keys = _KEY.findall(line) if line.count(":") > 1 else []
    if len(set(keys)) > 1 and line.find(keys[0]) < 4:
        return True
    marked = _SLOT.findall(line) if "[" in line else _TAG.findall(line) if "<" in line else ()
    if marked and sum(map(len, marked)) > _MARKED_SHARE * len(line):
        return True
    if _DIGIT.search(line):
        tokens = line.split()
        if len(tokens) > 3 and 2 * sum(token.strip(".,%$£€()-+").isdigit() for token in tokens) > len(tokens):
            return True
    return 1 < line.count(",") == len(_CELL.findall(line)) and len(line) < _LINE and line[-1] not in ".!?"


def _of_languages(response: _Look, sources: Sequence[_Look], languages: Collection[str]) -> list[Limit]:
    """Return a limit if a text is in a language that the detector was not trained on, and otherwise nothing."""
    if {text.language for text in (response, *sources)} - {None} <= set(languages):
        return []
    which = LANGUAGES[next(iter(languages))] if len(languages) == 1 else f"{len(languages)} other languages"
    trained = f"this detector was trained on {which}, its scores mean less"
    language_of_response = response.language
    other = next((source.language for source in sources if source.language not in (None, language_of_response)), None)
    looks = _named([source.language == other for source in sources])
    if language_of_response is not None and other is not None:
        subject = looks.rsplit(" ", 1)[0]
        pair = f"the response looks {LANGUAGES[language_of_response]} and {subject} {LANGUAGES[other]}"
        return [Limit("languages differ", f"{pair}; {trained}")]
    if language_of_response is not None:
        return [Limit("language", f"the response looks {LANGUAGES[language_of_response]}; {trained}")]
    return [Limit("language", f"{looks} {LANGUAGES[str(other)]}; {trained}")]


def _named(selected: Sequence[bool]) -> str:
    """Begin a sentence about the selected sources ("2 of 3 sources look")."""
    return "the source looks" if len(selected) == 1 else f"{sum(selected)} of {len(selected)} sources look"


@lru_cache(maxsize=256)
def _look(text: str, size: int) -> _Look:
    """Determine a text's language, form and length from its beginning, middle and end, `size` characters in all."""
    part = size // 3
    middle = len(text) // 2
    sample = text if len(text) <= size else f"{text[:part]}\n{text[middle : middle + part]}\n{text[-part:]}"
    form = form_of(sample)
    language = language_of(sample) if form is None else None  # names and keys are no sentences
    return _Look(language, form, min(len(words(text.lstrip()[:_LINE])), 2))
