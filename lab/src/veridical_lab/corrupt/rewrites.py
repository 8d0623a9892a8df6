"""Rewrite an English sentence without changing its meaning.

The rewrites change words, numbers, dates, names and order, or remove a part. Without rewrites in its training data, a
detector learns from synthetic errors that any change of words is an error.

All rewrites preserve truth. Numbers and dates keep their value (`text.quantities`), and words come from a small table
that says in which contexts they fit. Names become shorter or longer only if the sources identify the person.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

from veridical.records.edits import apply
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Edit, Example
from veridical.text import quantities
from veridical.text.names import is_name
from veridical.text.segment import words
from veridical.text.vocabulary import MONTHS
from veridical_lab.corrupt import is_grounded, weighted_order
from veridical_lab.corrupt.english import CONTRACTIONS, PARTICIPLES, TRANSITIVE, contracted, word_set
from veridical_lab.corrupt.gold import made_from
from veridical_lab.corrupt.mentions import COUNTS
from veridical_lab.corrupt.passages import VALUE, Passage, article_fits, is_apart, opens_with_name, passages_of
from veridical_lab.corrupt.synonyms import ADVERBS, FRAMES, OPENERS, SYNONYMS, UNIT_FORMS

_NEGATED = re.compile(
    r"\b(?:not|no|never|nor|neither|none|nobody|nothing|hardly|without|only|un[a-z]+ed)\b|n['’]t\b", re.I
)
_LIMITING = re.compile(
    r"\b(?:first|last|only|[a-z]+est|most|least|every|all|always|never|record|new|if|unless)\b", re.I
)


# ---------------------------------------------------------------------------------------------------- words


def synonyms(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Replace a word or phrase by a synonym from the table, but not inside names."""
    sentence = passage.sentence
    for pattern, options in draw.sample(SYNONYMS, len(SYNONYMS)):
        for match in pattern.finditer(sentence):
            edit = passage.edit(*match.span(), draw.choice(options), "synonym")
            inside = any(mention.span.overlaps(edit.span) and len(edit.span) < 12 for mention in passage.names)
            if not inside and article_fits(passage.text, edit):
                yield edit


def contractions(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Replace "wasn't" by "was not", or the reverse. Questions are not changed."""
    sentence = passage.sentence
    if "?" in sentence:
        return
    for match, verb in contracted(sentence):
        new = "cannot" if verb == "can" else f"{verb} not"
        yield passage.edit(*match.span(), new[0].upper() + new[1:] if match[0][0].isupper() else new, "contraction")
    for match in _FULL.finditer(sentence):
        new = _SHORT["can" if match[0] == "cannot" else match[1]]
        yield passage.edit(*match.span(), new, "contraction")


_SHORT = {verb: short for short, verb in reversed(CONTRACTIONS.items()) if "'" in short}
_FULL = re.compile(rf"\b({'|'.join(_SHORT)}) not\b(?= [a-z]+)(?! only| just| merely)|\bcannot\b")


# --------------------------------------------------------------------------------------- numbers, dates, names


def value_forms(passage: Passage, draw: Random, kind: str) -> Iterator[Edit]:
    """Write a number, quantity or sum of money ("number_form"), or a date or a span of years, in another form.

    The value stays the same.
    """
    sentence = passage.sentence
    matches = list(VALUE.finditer(quantities.fold(sentence)))
    for match in draw.sample(matches, len(matches)):
        value, keys = sentence[match.start() : match.end()], quantities.keys(match[0])
        before, after = sentence[: match.start()], sentence[match.end() :]
        if not keys or ":" not in keys[0] or (keys[0][0] in "dr") != (kind == "date_form"):
            continue
        if _PART_BEFORE.search(before) and kind == "number_form":
            continue
        if before.endswith(("-", "–", "[", "#", "/", ".")) or _PART_AFTER.match(after):
            continue  # part of a compound, a mark or a name
        if kind == "date_form" and _SPAN_BEFORE.search(before):
            continue  # "between 8 and 14 April": the first date has no month of its own
        options = list(_dates(value) if kind == "date_form" else _numbers(value, after))
        for new in draw.sample(options, len(options)):
            whole = VALUE.match(quantities.fold(f"{new}{after[:1]}"))
            edit = passage.edit(*match.span(), new, kind)
            if new == value or whole is None or whole.end() < len(new):
                continue
            if set(quantities.keys(whole[0])) & set(keys) and article_fits(passage.text, edit):
                yield edit


_PART_BEFORE = re.compile(r"[^\W\d_]$|(?<![.!?] )(?<!^)\b[A-Z][\w.]{0,40} $")  # "R$5", "ISO 9001", "Apollo 11"
_PART_AFTER = re.compile(r"[-–/%\]]|['’]s|,? [A-Z]|,? (?:to|and|or) [0-9]")
_SPAN_BEFORE = re.compile(r"[0-9](?:st|nd|rd|th)?(?: [A-Z][a-z]+)?,? (?:to|and|or|until|till|through|[-–]) $")


def _numbers(value: str, after: str) -> Iterator[str]:
    """Yield other forms of a number or quantity. The caller must check that they have the same value."""
    low = value.lower()
    small = ("one", *COUNTS)
    if low in COUNTS and not re.match(r" (?:of|or|and|to)\b|-", after) and value == low:
        yield str(small.index(low) + 1)
    if value.isdigit() and 2 <= int(value) <= 12 and re.match(" [a-z]{3,}", after):
        yield small[int(value) - 1]
    if re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+", value):
        yield value.replace(",", "")
    if re.fullmatch(r"[0-9]{4,9}", value) and not 1000 <= int(value) <= 2100 and value[0] != "0":
        yield f"{int(value):,}"
    for word, size in (("million", 6), ("billion", 9)):
        if match := re.fullmatch(rf"([$£€]?[0-9]+)(?:\.([0-9]))? {word}", value):
            whole = int(re.sub(r"\D", "", match[1])) * 10**size + int(match[2] or 0) * 10 ** (size - 1)
            yield f"{match[1] if match[1][0] in '$£€' else ''}"[:1] + f"{whole:,}"
        if match := re.fullmatch(rf"([$£€]?)([0-9]+),([05])00{',000' * (size // 3 - 1)}", value):
            yield f"{match[1]}{match[2]}{'.5' if match[3] == '5' else ''} {'million' if size == 6 else 'billion'}"
    if match := re.fullmatch(r"([$£€])([0-9.,]+(?: (?:million|billion))?)", value):
        yield f"{match[2]} {dict(zip('$£€', ('dollars', 'pounds', 'euros'), strict=True))[match[1]]}"
    match = re.fullmatch(r"([0-9.,]+) ?([^0-9., ].*)", value)
    if match and match[2].lower() in UNIT_FORMS:
        new = UNIT_FORMS[match[2].lower()]
        yield f"{match[1]}{'' if new[0] in ' %' else ' '}{new}"


def _dates(value: str) -> Iterator[str]:
    """Yield other forms of a date or a span of years. The caller must check that they are the same date."""
    named = rf"(?P<month>{'|'.join(month.capitalize() for month in MONTHS)})"
    day, year = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?", "(?P<year>[0-9]{4})"
    match = re.fullmatch(rf"{day} (?:of )?{named}(?:,? {year})?", value)
    if match := match or re.fullmatch(rf"{named} {day}(?:, ?{year})?", value):
        day, month, year = match["day"], match["month"], match["year"]
        yield f"{day} {month} {year}" if year else f"{day} {month}"
        yield f"{month} {day}, {year}" if year else f"{month} {day}"
        if year:
            yield f"{year}-{MONTHS.index(month.lower()) + 1:02}-{int(day):02}"
    if match := re.fullmatch("([0-9]{2})([0-9]{2})[–-]([0-9]{2})", value):
        yield f"{match[1]}{match[2]}–{match[1]}{match[3]}"


def name_forms(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Shorten a person's name to the surname, or write it in full if the sources have only one full name with it."""
    for mention in draw.sample(passage.names, len(passage.names)):
        if mention.kind != "person":
            continue
        name = mention.span.of(passage.text)
        *given, last = name.split(" ")
        is_surname = last.isalpha() and not last.isupper() and is_name(last, Span(0, len(last)))
        if len(last) < 3 or not is_surname or passage.text[mention.span.end :][:1] in ("-", "–", "/"):
            continue
        pattern = re.compile(rf"{_GIVEN}{re.escape(last)}\b")
        full = {name for source in passage.sources for name in pattern.findall(source.text)}
        if len(full) != 1:
            continue
        (only,) = full
        if len(given) in (1, 2) and only.endswith(name) and given[0] not in _NOT_GIVEN:
            yield Edit(mention.span, last, "name_form")
        elif not given and only != name and only.split(" ")[0] not in _NOT_GIVEN:
            before = passage.text[passage.span.start : mention.span.start]
            if not re.search(r".[A-Z][\w.]* $|\bthe $|^[A-Z][a-z]{1,3}\.? $(?<!Then )", before):
                yield Edit(mention.span, only, "name_form")


_GIVEN = r"\b[A-Z][a-z]+(?: [A-Z](?:\.|[a-z]+))? (?:de |van |von )?"
_NOT_GIVEN = word_set("""
In The At On For With From And But By To Of As Mr Mrs Ms Dr Sir Lord Lady King Queen Prince Princess President Saint
Professor General Captain Colonel Pope When While After Before Since Although If New North South East West County Lake
Mount Fort Port San River Later His Her Their Its This That Both
""")


# --------------------------------------------------------------------------------------------- voice and order


def voices(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Replace "A defeated B" by "B was defeated by A", or the reverse, for two names that make up the whole clause."""
    text, span = passage.text, passage.span
    for a, b in pairwise(passage.names):
        between = text[a.span.end : b.span.start]
        after = text[b.span.end : span.end]
        alone = text[span.start : a.span.start] == "" or re.search(r"[a-z0-9], $", text[span.start : a.span.start])
        if not alone or not re.match(r"[.!]?$| (?:in|on|at|by|during|after|before|to)\b", after):
            continue
        one, other = a.span.of(text), b.span.of(text)
        if one.endswith("s") or other.endswith("s"):
            continue
        whole = Span(a.span.start, b.span.end)
        if match := re.fullmatch(rf" ({'|'.join(TRANSITIVE)}) ", between):
            verb = PARTICIPLES.get(match[1], match[1])
            if not re.match(" by| to", after):
                yield Edit(whole, f"{other} was {verb} by {one}", "voice")
        elif match := re.fullmatch(rf" was ({'|'.join((*TRANSITIVE, *PARTICIPLES.values()))}) by ", between):
            past = {participle: verb for verb, participle in PARTICIPLES.items()}.get(match[1], match[1])
            yield Edit(whole, f"{other} {past} {one}", "voice")


def orders(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Move a date such as "In 2019," from the front to the end of a simple sentence, or the reverse."""
    sentence = passage.sentence
    if _SUBORDINATE.search(sentence):
        return
    if match := re.fullmatch(rf"({_WHEN}),? ([^,;:]+)([.!])", sentence):
        rest = match[2][0].upper() + match[2][1:]
        when = match[1][0].lower() + match[1][1:]
        if not re.search(_WHEN.replace("[IO]", "[io]"), match[2]):
            yield passage.edit(0, len(sentence), f"{rest} {when}{match[3]}", "order")
    elif match := re.fullmatch(rf"([A-Z][^,;:]+) ({_WHEN.replace('[IO]', '[io]')})([.!])", sentence):
        first = match[1] if opens_with_name(match[1]) else match[1][0].lower() + match[1][1:]
        other = re.search(_WHEN.replace("[IO]", "[IOio]"), match[1]) or _PARTICIPLE.search(match[1])
        if re.search(r" (?:was|were|is|had|has|[a-z]+ed) ", match[1]) and not other:
            when = f"{match[2].capitalize()[:2]}{match[2][2:]}"
            yield passage.edit(0, len(sentence), f"{when}, {first}{match[3]}", "order")


_WHEN = (
    rf"[IO]n (?:(?:early|late|mid-) ?)?(?:[0-9]{{1,2}} )?(?:(?:{'|'.join(m.capitalize() for m in MONTHS)}) )?[0-9]{{4}}"
)
_PARTICIPLE = re.compile(  # "a bridge built" (in 1930)
    r"(?<!\bwas)(?<!\bwere)(?<!\bbeen)(?<!\bhad) "
    r"(?:[a-z]+ed|built|held|made|born|written|given|known|led|sold|found|won)$"
)
_SUBORDINATE = re.compile(
    r"\b(?:who|which|that|when|where|while|because|although|but|and|or|until|since|if|as)\b|[\"“(—]"
)


def conjuncts(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Exchange two coordinated places or people ("A and B"), unless one of them has a title or role."""
    text = passage.text
    if re.search(r"\brespectively\b|\bformer\b|\blatter\b|\bbetween\b", passage.sentence):
        return
    for a, b in pairwise(passage.names):
        one, other = a.span.of(text), b.span.of(text)
        before, after = text[passage.span.start : a.span.start], text[b.span.end : b.span.end + 2]
        free = before == "" or re.search(r"\b(?:in|by|from|to|with|for|include|including|near|met|visited) $", before)
        alike = a.kind == b.kind != "name" and one != other and not one.isupper()
        if free and alike and text[a.span.end : b.span.start] == " and " and not re.match(r" [A-Z]|['’]|-", after):
            yield Edit(Span(a.span.start, b.span.end), f"{other} and {one}", "conjuncts")


def splits(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Split two main clauses into two sentences: ", and she opened" becomes ". She opened"."""
    sentence = passage.sentence
    for match in re.finditer(r", and (he|she|it|they) (?=[a-z]+)", sentence):
        is_main = not re.search(r"\b(?:that|if|whether|because)\b|[\"“]", sentence)
        if is_main and sentence[: match.start()].count(" ") > 3:
            yield passage.edit(*match.span(), f". {match[1].capitalize()} ", "split")


def frames(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Put a phrase such as "According to the text," before the first sentence of the response."""
    sentence = passage.sentence
    if passage.text[: passage.span.start].strip() or not sentence[0].isalpha() or "?" in sentence:
        return
    if re.match(r"(?:However|But|And|Also|Then|So|Thus|Therefore|Moreover|According)\b|An? [A-Z]", sentence):
        return
    first_word = re.split(r"\W", sentence, maxsplit=1)[0]
    is_mentioned = any(first_word in mention.span.of(passage.text).split() for mention in passage.mentions)
    keeps = opens_with_name(sentence) or is_mentioned or re.match(r"\w+ [A-Z]", sentence)
    first = sentence[0] if keeps else sentence[0].lower()
    yield passage.edit(0, 1, draw.choice(FRAMES) + first, "framing")


# ------------------------------------------------------------------------------------------------------- cuts


def cuts(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Remove a part in brackets, a relative clause, a second main clause or a date at the end."""
    sentence = passage.sentence
    for pattern in _CUTS:
        if pattern is _LAST_DATE and (_NEGATED.search(sentence) or _LIMITING.search(sentence)):
            continue
        for match in pattern.finditer(sentence):
            if len(words(sentence[: match.start()] + sentence[match.end() :])) >= 5:
                yield passage.edit(*match.span(), "", "cut")


_LAST_DATE = re.compile(rf" {_WHEN.replace('[IO]', '[io]')}(?=\.$)")
_CUTS = (
    re.compile(r" \((?:[12][0-9]{3}|[^()]{0,78}[A-Za-z]{2}[^()]{0,78})\)"),
    re.compile(r", (?:which|who|where) [^,;()\"“]{5,90},(?= (?:is|was|has|had|were|are|became|won|died|made|began)\b)"),
    re.compile(r", (?:which|who|where|whose|(?:and|but) (?:he|she|it|they)) [^,;()\"“”]{5,110}(?=\.$)"),
    re.compile(r", (?:making|leaving|including|becoming|allowing|causing) [^,;()\"“”]{5,90}(?=\.$)"),
    _LAST_DATE,
)


def dropped_adverbs(passage: Passage, draw: Random) -> Iterator[Edit]:
    """Remove an adverb that adds nothing, unless it follows a negation, or a connective at the beginning."""
    sentence = passage.sentence
    for match in re.finditer(rf"(?<=[a-z] )(?:{'|'.join(ADVERBS)}) (?=[a-z]+)", sentence):
        before = sentence[max(0, match.start() - 25) : match.start()]
        if not _NEGATED.search(before) and not re.search(r"\b(?:an?|but|so|too) $", before):
            yield passage.edit(*match.span(), "", "adverb")
    opener = re.match(rf"(?:{'|'.join(OPENERS)}), ([^\W\d_])", sentence)
    if opener:
        yield passage.edit(*opener.span(), opener[1].upper(), "adverb")


REWRITES: dict[str, Callable[[Passage, Random], Iterator[Edit]]] = {
    "synonym": synonyms,
    "number_form": partial(value_forms, kind="number_form"),
    "date_form": partial(value_forms, kind="date_form"),
    "name_form": name_forms,
    "contraction": contractions,
    "voice": voices,
    "order": orders,
    "conjuncts": conjuncts,
    "split": splits,
    "framing": frames,
    "cut": cuts,
    "adverb": dropped_adverbs,
}
_WEIGHTS = dict.fromkeys(REWRITES, 4.0) | {"voice": 30, "order": 12, "conjuncts": 12, "synonym": 3, "cut": 2}
_FRAMED = 0.15  # probability of trying a framing, because almost every first sentence would allow one


def rewritten(examples: Iterable[Example], *, share: float = 0.5, seed: int = 0) -> Iterator[Example]:
    """Paraphrase or shorten some of the responses, and yield all examples.

    Only responses that are labelled as grounded are rewritten, and they stay grounded. Each sentence gets at most three
    rewrites. The group `rewritten` lists the types that were used, in alphabetical order with "+" between them. The
    group is "no" if nothing was rewritten.

    Args:
        examples: The labelled examples, which are read as a stream.
        share: The fraction of grounded examples to rewrite, from 0 to 1. A random draw decides for each example
            independently.
        seed: The random seed. The draw for an example does not depend on other examples.

    Raises:
        InputError: The fraction is out of range.
    """
    if not 0.0 <= share <= 1.0:
        raise InputError(f"the share is {share:g}", hint="from 0 to 1")
    for example in examples:
        draw = random.Random(f"{seed}\0rewritten\0{example.case.id}")
        if not is_grounded(example) or example.gold.verdicts or draw.random() >= share:
            yield example
            continue
        edits: list[Edit] = []
        for passage in passages_of(example.case):
            edits += rewrite(passage, draw, most=draw.randint(1, 3))
        names = "+".join(sorted({edit.because for edit in edits})) or "no"
        id = f"{example.case.id}/rewritten" if edits else example.case.id
        case = replace(example.case, id=id, response=apply(example.case.response, edits))
        yield made_from(example, case, replace(example.gold, case_id=id), rewritten=names)


def rewrite(passage: Passage, draw: Random, *, most: int = 1, types: Sequence[str] = tuple(REWRITES)) -> list[Edit]:
    """Draw at most `most` rewrites of one sentence, and return their edits in order.

    The rewrites have different types and do not touch each other.
    """
    edits: list[Edit] = []
    for kind in weighted_order(types, _WEIGHTS, draw):
        if len(edits) == most:
            break
        if kind == "framing" and draw.random() >= _FRAMED:
            continue
        options = list(REWRITES[kind](passage, draw))
        edits += [edit for edit in draw.sample(options, len(options)) if is_apart(edit, edits)][:1]
    return sorted(edits, key=lambda edit: edit.span)
