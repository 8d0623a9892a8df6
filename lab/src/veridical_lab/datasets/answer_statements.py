"""Turn an English question and its short answer into a statement, by rules: "Who wrote it?", "Bell": "Bell wrote it."

Only questions for which this is safe are turned. The words of the statement stay in the order of the question, or one
known verb is moved. A parser could turn more questions.
"""

from __future__ import annotations

import re

from veridical.records.spans import Span

_LONGEST_ANSWER = 8  # words; a longer answer is mostly a clause of its own
_PAST = {
    "die": "died", "begin": "began", "start": "started", "end": "ended", "open": "opened", "close": "closed",
    "happen": "happened", "occur": "occurred", "marry": "married", "retire": "retired", "premiere": "premiered",
    "air": "aired", "debut": "debuted", "arrive": "arrived", "resign": "resigned", "graduate": "graduated",
    "originate": "originated", "become": "became", "win": "won", "join": "joined", "leave": "left", "move": "moved",
}  # fmt: skip
_PARTICIPLE = (
    r"(?:\w+ed|born|built|made|held|won|written|found|begun|led|sold|shot|set|sung|spoken|taken|given|known|drawn)"
)
_SUBJECT_VERB = (
    "(?:has|had) (?:a|an|the|no)|won|led|became|made|wrote|hosted|owns|produces|ruled|defeated|caused|beat|plays|"
    "played|contains|includes|"
    "helped|began|founded|controls|provides|invaded|discovered|built|used|dominated|lost|gained|took|gave|held"
)
_AUXILIARY = r"did|do|does|is|was|are|were|will|would|can|could|has|had|have|should|may|might|else|all"
_DANGLING = re.compile(
    r"\b(?:of|to|in|by|as|at|from|on|with|for|about|into|like|called|named|known|found|located|used|made|considered)$"
)
_NUMBER = re.compile(
    r"(?:(?:about|over|around|nearly|almost|approximately|at least|more than|less than|some) )?"
    r"(?:\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty)"
    r"(?: (?:hundred|thousand|million|billion))?",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?:(?:late|early|mid)[ -])?(?:the )?(?:[\w,.]+ ){0,4}\d{1,4}(?:st|nd|rd|th|s)?(?: (?:century|BCE?|AD|CE))?"
)
_DAY = re.compile(r"\d{1,2}(?:st|nd|rd|th)? [A-Z][a-z]+|[A-Z][a-z]+ \d{1,2}\b")
# each rule: a pattern of the question, the statement (`_` stands for the answer), and what the answer has to be
_RULES = tuple(
    (re.compile(pattern, re.IGNORECASE), form, answers)
    for pattern, form, answers in (
        (rf"who (?P<rest>(?!(?:{_AUXILIARY})\b).+)", "_ {rest}", None),
        (rf"who (?P<rest>(?:is|was|are|were) (?:the\b.+|.+'s .+|(?:\w+ly )?{_PARTICIPLE}\b.+))", "_ {rest}", None),
        (
            rf"when (?P<verb>was|were) (?P<x>.+?) (?P<adverb>(?:first|originally|last|officially|finally) )?"
            rf"(?P<rest>{_PARTICIPLE}(?: (?:in|as|by|to|at|for|from|on|into|of) .+)?)",
            "{x} {verb} {adverb}{rest} at _",
            _TIME,
        ),
        (
            rf"when did (?P<x>.+?) (?P<adverb>(?:first|originally|finally|officially) )?(?P<base>{'|'.join(_PAST)})"
            r"(?P<more>(?: (?!(?:is|was|were|did|to)\b).+)?)",
            "{x} {adverb}{past}{more} at _",
            _TIME,
        ),
        (rf"where (?P<verb>is|are|was|were) (?P<x>.+?) (?P<rest>{_PARTICIPLE})", "{x} {verb} {rest} in _", None),
        (
            rf"how many (?P<rest>(?:(?!(?:{_AUXILIARY}|there)\b)\w[\w'-]* )+?(?:(?:were|are) {_PARTICIPLE}\b.*|"
            rf"(?:live|lived|work|attended|voted|played|died|make up|took part|{_SUBJECT_VERB})\b.*))",
            "_ {rest}",
            _NUMBER,
        ),
        (r"(?:what|which) (?P<verb>is|was|are|were) (?P<x>(?:the|his|her|its|their)\b.+)", "{x} {verb} _", None),
        (
            rf"(?:what|which) (?:(?!(?:{_AUXILIARY}|type|kind|happened)\b)[\w'-]+ ){{1,2}}"
            rf"(?P<rest>(?:{_SUBJECT_VERB}) .+)",
            "_ {rest}",
            None,
        ),
    )
)
_YEAR = re.compile(r"(?:in )?(?:what|which) year (?=was|were|did)", re.IGNORECASE)


def statement(question: str, answer: str) -> tuple[str, Span] | None:
    """Turn a question and its answer into a statement, and find the span of the answer in the statement.

    Return None if no rule fits.

    >>> statement("Who wrote it?", "Mary Bell")
    ('Mary Bell wrote it.', Span(start=0, end=9))
    >>> statement("When was the library built?", "1931")[0], statement("In what year did she die?", "1943")[0]
    ('The library was built in 1931.', 'She died in 1943.')
    >>> statement("What is the capital of Peru?", "Lima")[0], statement("Why is it so?", "chance")
    ('The capital of Peru is Lima.', None)
    """
    asked = _YEAR.sub("When ", " ".join(question.split()).rstrip(" ?.!"))
    if not 1 <= len(answer.split()) <= _LONGEST_ANSWER or re.search(r"[;:?!]|\. ", asked + answer):
        return None
    for pattern, form, answers in _RULES:
        match = pattern.fullmatch(asked)
        if match is None or (answers is not None and not answers.fullmatch(answer)) or _DANGLING.search(asked):
            continue
        parts = {name: text or "" for name, text in match.groupdict().items()}
        if "base" in parts:
            parts["past"] = _PAST[parts["base"].lower()]
        form = form.replace(" at _", " on _" if _DAY.match(answer) else " in _")
        before, after = (part.format(**parts) for part in form.split("_"))
        text = f"{before}{answer}{after}."
        return text[0].upper() + text[1:], Span(len(before), len(before) + len(answer))
    return None
