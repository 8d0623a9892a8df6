"""Prepare a case for the encoder: drop wrong premises, and rewrite the sources in the forms of the response.

The encoder has not learned that "330 m" and "330 metres" are equal, or "isn't" and "is not", or "analysed" and
"analyzed". Values, words and negations of the sources are therefore written as in the response before they are encoded.
`text.quantities` decides which values are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from veridical.records.turns import turns_of_others
from veridical.records.types import Case, Source
from veridical.text import quantities
from veridical.text.counterparts import bound, compare_mention, stated
from veridical.text.lexical import source_profile
from veridical.text.matching import WORDS, Profile, compiled
from veridical.text.mentions import Mention, Sentence, SentenceIndex, index_of


def without_unsupported_context(case: Case) -> Case:
    """Remove the question and the earlier turns from which the response repeats a wrong value.

    The encoder treats all of its input as supported, so it would accept a wrong value that already occurs in the
    conversation. An earlier answer is removed if the response repeats a value or name from it that no source has.

    Users also describe their own situation ("for 5 days"). Their turns and the question are therefore removed only if a
    source has a different value in the place of the repeated one. Turns whose text the question contains are always
    removed.

    >>> case = Case("1", "Yes, it was built in 1950.", (Source("s", "It was built in 1960."),), "Was it built in 1950?")
    >>> without_unsupported_context(case).question is None
    True
    """

    def has_any(text: str, mentions: Iterable[tuple[Sentence, Mention]]) -> bool:
        return any(stated(index_of((text,)), sentence, mention) for sentence, mention in mentions)

    def in_sources(key: str) -> bool:
        return any(key in source_profile(source.text).counts for source in case.sources)

    question = case.question or ""
    history = [turn for turn in case.history if turn.text not in question]
    context = "\n".join((question, *(turn.text for turn in history)))
    mentions = [(sentence, m) for sentence in index_of((case.response,)).sentences for m in sentence.mentions if m.keys]
    unsupported = [each for each in mentions if not (all if each[1].is_name else any)(map(in_sources, each[1].keys))]
    if not has_any(context, unsupported):
        return replace(case, history=tuple(history))
    index = index_of(tuple(source.text for source in case.sources))  # slow for long sources
    unsupported = [(sentence, mention) for sentence, mention in unsupported if not stated(index, sentence, mention)]
    denied = [(sentence, mention) for sentence, mention in unsupported if _is_denied(index, sentence, mention)]
    asked = turns_of_others(case)
    return replace(
        case,
        history=tuple(turn for turn in history if not has_any(turn.text, denied if turn in asked else unsupported)),
        question=None if has_any(question, denied) else case.question,
    )


def _is_denied(index: SentenceIndex, sentence: Sentence, mention: Mention) -> bool:
    """Check whether a source has another value in the place of a mention, and not as a bound ("up to 6")."""
    other = compare_mention(index, index.weighted(sentence), sentence, mention).counterpart
    return other is not None and not bound(index.sentences[other.sentence_i], other.mention)


def in_forms_of_response(case: Case) -> Case:
    """Rewrite values, words and negations in the sources as the response writes them.

    If a source already writes a value as the response does, other forms of this value stay as they are.

    >>> case = Case("1", "It isn't 330 m tall.", (Source("s", "It is not 330 metres tall."),))
    >>> in_forms_of_response(case).sources[0].text
    "It isn't 330 m tall."
    """
    case = _with_negations(case)
    response = Profile(case.response, WORDS["values"])
    profiles = [source_profile(source.text) for source in case.sources]
    missing = [form for form in response.types if not any(form in profile.types for profile in profiles)]
    values: dict[str, str] = {}
    small: dict[str, str] = {}  # numbers that are rewritten only from or to a form that the encoder does not know
    words: dict[str, str] = {}
    for form in missing:
        if not quantities.is_value(form):
            words.update(dict.fromkeys(_spellings(form), form))
            continue
        for key in () if _LEFT.match(form) or _DATE_OF_RECORD.match(form) else quantities.keys(form):
            kind, _, amount = key.partition(":")
            if kind in _KINDS or (kind == "n" and abs(Fraction(amount)) >= _LARGE):
                values.setdefault(key, response.first_span(form).of(case.response))
            elif kind == "n":
                small.setdefault(key, form)
    if not values and not small and not any(form in profile.types for form in words for profile in profiles):
        return case
    sources = []
    for source, profile in zip(case.sources, profiles, strict=True):
        forms = {form: words[form] for form in words if form in profile.types}
        for form in profile.types if values or small else ():
            if quantities.is_value(form) and not _LEFT.match(form):
                keys = quantities.keys(form)
                written = next((values[key] for key in keys if key in values), None)
                if written is None:
                    own_form = next((small[key] for key in keys if key in small), None)
                    if own_form is None or (_KNOWN.fullmatch(own_form) and _KNOWN.fullmatch(form)):
                        continue
                    written = response.first_span(own_form).of(case.response)[quantities.numeral(own_form) :]
                forms[form] = written
        sources.append(_rewritten(source, profile, forms) if forms else source)
    return replace(case, sources=tuple(sources))


_KINDS = ("d", "t", "q", "r", "o", "dec")  # dates, times, quantities, ranges, ordinals, decades
_LARGE = 1000  # the encoder knows smaller numbers in digits and in words, and tables are full of them
_KNOWN = re.compile(r"[0-9]+(?:[.,][0-9]+)?|[a-z]+(?:-[a-z]+)?")  # "12", "twelve"; not "a dozen" or "½"
_LEFT = re.compile(r".*[ -]olds?$")  # never rewritten: "100 years old" says more than "100 years"
_DATE_OF_RECORD = re.compile(r"\d{4}[-/]\d")  # 1998-07-04: rewritten, but nothing is rewritten as it


def _rewritten(source: Source, profile: Profile, forms: Mapping[str, str]) -> Source:
    parts: list[str] = []
    end = 0
    for match in compiled(profile.pattern).finditer(profile.text):
        if match[0] in forms:
            number_start = quantities.keyed(match[0])[0] or quantities.numeral(match[0])  # what is before it stays
            number_start += match.start()
            space = " " if source.text[number_start - 1 : number_start].isdigit() else ""  # the time of a time stamp
            parts += (source.text[end:number_start], space + forms[match[0]])
            end = match.end()
    return replace(source, text="".join([*parts, source.text[end:]]))


_ISE = "(?=(?:e|ed|er|ers|es|ing|ation|ations|ational)$)"
_OUR = "(?=(?:s|ed|ing|able|ful|ite|ites|less|hood|hoods|er|ers)?$)"
_LL = "(?=(?:ed|ing|er|ers|or|ors)$)"
_SPELLINGS = [
    (re.compile(pattern + ending), substitute, shortest)
    for one, other, ending, shortest in (
        *(("is", "iz", _ISE, 5), ("ys", "yz", _ISE, 5), ("our", "or", _OUR, 5), ("ll", "l", _LL, 7)),
        *(("tre", "ter", "(?=s?$)", 5), ("bre", "ber", "(?=s?$)", 5), ("enc", "ens", "(?=es?$)", 5)),
        *(("ogue", "og", "(?=s?$)", 5), ("gramme", "gram", "(?=s?$)", 5)),
    )
    for pattern, substitute in ((one, other), (other, one))
]


@lru_cache(maxsize=1 << 14)
def _spellings(word: str) -> tuple[str, ...]:
    """Return other British or American spellings that `word` may have. Many of them are not words at all.

    >>> _spellings("colour"), _spellings("analyzed"), _spellings("four")
    (('color',), ('analysed',), ())
    """
    forms = [(pattern.sub(substitute, word, count=1), shortest) for pattern, substitute, shortest in _SPELLINGS]
    return tuple(form for form, shortest in forms if form != word and min(len(form), len(word)) >= shortest)


_VERBS = "can|could|do|does|did|is|are|was|were|has|have|had|would|should|must|need|will"
_SHORT = {f"{verb}n": verb for verb in _VERBS.split("|")} | {"can": "can", "won": "will"}
_NEGATION = re.compile(rf"\b(?:(?P<verb>{_VERBS}) ?not|(?P<short>{'|'.join(_SHORT)})['’]t)\b", re.IGNORECASE)


def _with_negations(case: Case) -> Case:
    """Contract the negations in the sources of a case, or write them out, as in the response."""
    in_response: dict[tuple[str, bool], str] = {}
    for match in _NEGATION.finditer(case.response):
        in_response.setdefault(_negation(match), match[0])
    if not in_response:
        return case
    in_sources = {_negation(match) for source in case.sources for match in _NEGATION.finditer(source.text)}
    rewritten = {
        (verb, not short): text for (verb, short), text in in_response.items() if (verb, short) not in in_sources
    }
    if not rewritten.keys() & in_sources:
        return case
    return replace(
        case,
        sources=tuple(
            replace(source, text=_NEGATION.sub(lambda match: rewritten.get(_negation(match), match[0]), source.text))
            for source in case.sources
        ),
    )


def _negation(match: re.Match[str]) -> tuple[str, bool]:
    """Return the verb of a negation, and whether it is contracted."""
    short = match["short"]
    return (_SHORT[short.lower()], True) if short else (match["verb"].lower(), False)
