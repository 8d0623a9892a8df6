"""Compose responses from arguments by templates, so that the argument behind each word is known.

Each argument follows a phrase such as "Opponents argue that". The response can have the wording of the given arguments,
or another wording, which makes a paraphrase (Chang et al. 2024, §4.1).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Evidence, Example, Judgement, Omission, Verdict
from veridical.text.names import is_name
from veridical.text.segment import sentences, words
from veridical_lab.datasets.reading import group
from veridical_lab.datasets.topics import Argument, Topic, draw_arguments, normal_form, topic_groups

WORDINGS = ("same", "other", "both")
"""The wording of the given arguments: as in the response, in other words, or one example of each."""

_LONGEST = 40  # maximum number of words of an argument that can be stated in one clause
_SIDES = {
    **dict.fromkeys(("pro", "support", "for", "yes"), ("Supporters", "Those in favour", "Proponents")),
    **dict.fromkeys(("con", "undermine", "against", "no"), ("Opponents", "Those opposed", "Critics")),
}
_FIRST = ("argue that", "say that", "point out that", "hold that")
_CONTRAST = ("By contrast, ", "On the other hand, ", "")
_NEXT = ("They add that", "They also say that", "Another of their points is that", "Furthermore, they argue that")
_LAST = ("Finally, they maintain that", "In addition, they say that", "Moreover, they hold that")

# a clause after "that" does not begin with one of these, and has a word of `_VERBS`
_NO_CLAUSE = re.compile(
    r"(?:what|why|how|who|whose|which|where|when will|to|for|because|vs|is|are|do|does|let|let's)\b", re.I
)
_VERBS = """
am is are was were be has have had do does did can could will would shall should may might must cannot
affect affects allow allows are become becomes benefit benefits bring brings cause causes come comes contribute
contributes cost costs create creates damage damages decrease decreases deserve deserves destroy destroys deter
discourage discourages encourage encourages enable enables ensure ensures exist exists fail fails feel feels force
forces get gets give gives go goes harm harms help helps hurt hurts improve improves increase increases infringe
infringes keep keeps kill kills know knows lack lacks lead leads learn learns leave leaves let lets limit limits live
lives lose loses make makes mean means need needs offer offers pay pays prevent prevents promote promotes protect
protects provide provides put puts reduce reduces remain remains require requires result results save saves seem seems
serve serves show shows spend spends suffer suffers support supports take takes teach teaches think thinks threaten
threatens undermine undermines understand use uses violate violates waste wastes work works depend depends rely relies
want wants like likes own owns hate hates love loves produce produces reflect reflects represent represents remain
remains care cares believe believes contradict contradicts deny denies discriminate drive drives exploit exploits
"""
_FINITE = frozenset(_VERBS.split())
_COMMON_ENDINGS = ("tion", "ment", "ments", "ing", "ness", "ity", "ism", "work", "People's")
_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d))$", re.I)


def clause_of(text: str) -> str | None:
    """Turn a text into a clause that can follow "that", with a small first letter and without final punctuation.

    The text must be one sentence of 4 to 40 words with a finite verb after its first word, and must not be a question,
    a heading or an order. Return None for any other text.

    >>> clause_of("The penalty of death is a crime deterrent.")
    'the penalty of death is a crime deterrent'
    >>> clause_of("Why home schooling harms society"), clause_of("Avoids the costs of elections")
    (None, None)
    """
    text = " ".join(text.split()).rstrip(" .:;,")
    spans = words(text)
    if not 4 <= len(spans) <= _LONGEST or len(sentences(text)) != 1 or re.search(r"[?!\n\"“”:;]|\.\.", text):
        return None
    later = [span.of(text).casefold() for span in spans[1:]]
    if _NO_CLAUSE.match(text) or not any(word in _FINITE or _CONTRACTED.search(word) for word in later):
        return None
    first = spans[0].of(text).casefold()
    if first in _FINITE or (first.endswith("s") and later[0] in ("the", "a", "an", "their", "people")):
        return None
    if text.istitle() or text.isupper():
        return None
    named = is_name(text, spans[0]) and not spans[0].of(text).endswith(_COMMON_ENDINGS)
    return text if named or spans[0].of(text) == "I" else text[0].lower() + text[1:]


def composed(topics: Iterable[Topic], *, wording: str = "both", per_topic: int = 6, seed: int = 0) -> Iterator[Example]:
    """Make examples without errors: one to three arguments for each perspective, and a response that states them all.

    For each argument, the gold has a verdict with score 0 and an omission with score 0. The verdict marks the words of
    the argument in the response, and its evidence is the argument. The document is the topic's group (`topic_groups`),
    so an argument is never in two parts of a split. The groups `topic` and `wording` ("same", "other") are set. The
    responses for a topic depend only on the topic and the seed, not on other topics.

    Args:
        topics: The topics. To be used, a topic needs arguments for two perspectives that can be stated in one clause.
            For another wording, these arguments also need paraphrases.
        wording: One of `WORDINGS`.
        per_topic: The maximum number of draws of arguments for each topic.

    Raises:
        UnknownNameError: `wording` is not in `WORDINGS`.
        InputError: No response can be composed from any topic.
    """
    if wording not in WORDINGS:
        raise UnknownNameError("wording", wording, WORDINGS)
    any_made = False
    topics = list(topics)
    documents = topic_groups(topics)
    for topic in topics:
        usable = usable_topic(topic, reworded=wording != "same")
        if usable is None:
            continue
        draw = random.Random(f"{seed}\0composed\0{topic.id}")
        seen: set[frozenset[str]] = set()
        for _ in range(3 * per_topic):
            try:
                arguments = draw_arguments(usable, draw)
            except InputError:  # its arguments are parts of one another
                break
            key = frozenset(argument.id for argument in arguments)
            if key in seen:
                continue
            seen.add(key)
            any_made = True
            for example in _examples(topic, arguments, f"{topic.id}/{len(seen)}", wording, draw):
                yield replace(example, document=documents[topic.id])
            if len(seen) == per_topic:
                break
    if not any_made:
        hint = "two perspectives with arguments that are sentences are needed"
        hint += "" if wording == "same" else "; without paraphrases choose the wording 'same'"
        raise InputError("no response can be composed of these topics", hint=hint)


def usable_topic(topic: Topic, *, reworded: bool) -> Topic | None:
    """Remove the arguments that cannot be stated as a clause. Return None if too few arguments remain.

    The text of each argument becomes its last wording that can be a clause. First wordings are often headings, and the
    later ones, which crowd workers wrote, are more often sentences.
    """
    chosen = []
    for argument in topic.arguments:
        clauses = [text for text in reversed(argument.wordings) if clause_of(text)]
        if clauses and (len(argument.wordings) > 1 or not reworded):
            others = tuple(text for text in argument.wordings if text != clauses[0])
            chosen.append(replace(argument, text=clauses[0], paraphrases=others))
    once = {normal_form(argument.text): argument for argument in reversed(chosen)}
    distinct = tuple(a for a in chosen if once[normal_form(a.text)] is a)
    return Topic(topic.id, topic.text, distinct) if len({a.perspective for a in distinct}) > 1 else None


def _examples(
    topic: Topic, arguments: Sequence[Argument], id: str, wording: str, draw: random.Random
) -> Iterator[Example]:
    response, spans = _response(arguments, draw)
    others = {argument.id: draw.choice(argument.paraphrases or (argument.text,)) for argument in arguments}
    for name in ("same", "other") if wording == "both" else (wording,):
        sources = tuple(a.source(a.text if name == "same" else others[a.id]) for a in arguments)
        case = Case(f"{id}/{name}", response, sources, question=topic.text)
        whole = [Evidence(source.id, Span(0, len(source.text))) for source in sources]
        verdicts = tuple(Verdict(span, 0.0, evidence=(e,)) for span, e in zip(spans, whole, strict=True))
        omissions = tuple(Omission(e.source_id, e.span, 0.0) for e in whole)
        gold = Judgement(case.id, "composed", 0.0, 0.0, verdicts, omissions)
        per_perspective = len(arguments) // len({argument.perspective for argument in arguments})
        yield Example(case, gold, group=group(per_perspective=per_perspective, topic=topic.id, wording=name))


def _response(arguments: Sequence[Argument], draw: random.Random) -> tuple[str, list[Span]]:
    """Compose a passage for each perspective, with an empty line between. Return the text and each argument's span."""
    text, spans = "", []
    before: str | None = None
    ends = [a.perspective != b.perspective for a, b in pairwise(arguments)] + [True]
    for argument, ends_passage in zip(arguments, ends, strict=True):
        name = argument.perspective
        if name != before:
            who = draw.choice(_SIDES.get(name.casefold(), (f"Those who speak for “{name}”",)))
            contrast = draw.choice(_CONTRAST) if text else ""
            opening = f"{contrast}{who[0].lower() + who[1:] if contrast else who} {draw.choice(_FIRST)}"
            text += "\n\n" if text else ""
        else:
            opening = draw.choice(_LAST if ends_passage else _NEXT)
            text += " "
        before = name
        clause = clause_of(argument.text) or argument.text
        text += f"{opening} {clause}."
        spans.append(Span(len(text) - 1 - len(clause), len(text) - 1))
    return text, spans
