"""Remove or add arguments in the sources of a response (Chang et al. 2024, §4.2), or make ambiguous errors.

Full errors do not change the response. If a stated argument is removed from the sources, the response is partly
unsupported. If an argument is added to the sources, the response omits it. Ambiguous errors (§3) are separate types.

In the gold, each argument has a verdict on the words that state it, with the argument as evidence. The verdicts come
from `argument_responses` or from people. If they are missing and an argument is removed, the gold calls the response
hallucinated, but marks no words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from veridical.records.edits import apply, carry
from veridical.records.spans import Span
from veridical.records.types import GOLD_THRESHOLD, Edit, Example, Omission, Source, Verdict
from veridical.text.segment import sentences, words
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.corrupt import chosen_names
from veridical_lab.corrupt.argument_responses import usable_topic
from veridical_lab.corrupt.gold import grouped, made_from
from veridical_lab.datasets.topics import Argument, Topic, normal_form

FULL = ("removed", "added", "both")
"""In full errors, the response states an argument that is not given, omits a given argument, or both."""

AMBIGUOUS = ("meaning", "partly-said", "repeated", "swapped")
"""In ambiguous errors, the response changes the meaning of an argument slightly, states one only in part, states one
twice, or exchanges two arguments of different perspectives."""

TYPES = (*FULL, *AMBIGUOUS, "partly-given")
"""All types. With "partly-given", the end of a given argument is cut off."""

_ALIKE = 0.5  # two arguments with this share of common content words may say the same
_UNMARKED = "where its arguments are said is not marked"
_FEWEST = 3  # minimum number of words on either side of a cut in an argument
_CUT = re.compile(
    r"(?:,? (?:because|so that|since|which|while|although|unless|by|and|when|if|as well as)) ", re.IGNORECASE
)

# stronger and weaker words, which change the meaning of a statement slightly
_STRENGTHS = {
    "may": "will", "might": "will", "can": "will", "could": "would", "should": "must", "some": "all", "many": "all",
    "most": "all", "few": "no", "often": "always", "usually": "always", "sometimes": "often", "rarely": "never",
    "likely": "certain", "unlikely": "impossible", "possible": "certain", "difficult": "impossible",
    "hard": "impossible", "important": "essential", "helpful": "essential", "consensus": "unanimity", "reduce": "end",
    "reduces": "ends", "reducing": "ending", "decrease": "end", "decreases": "ends", "limit": "prevent",
    "limits": "prevents", "harm": "destroy", "harms": "destroys", "hurt": "destroy", "hurts": "destroys",
    "damage": "destroy", "damages": "destroys", "risk": "certainty", "help": "cause", "helps": "causes",
    "encourage": "force", "encourages": "forces", "promote": "ensure", "promotes": "ensures", "improve": "perfect",
    "improves": "perfects", "more": "far more", "better": "best", "safer": "safe", "cheaper": "free", "must": "may",
    "will": "may", "all": "some", "always": "often", "never": "rarely", "every": "nearly every", "only": "mainly",
    "need": "want", "needs": "wants", "prevent": "reduce", "prevents": "reduces", "ensure": "promote",
    "ensures": "promotes", "cause": "influence", "causes": "influences", "lead": "contribute", "leads": "contributes",
    "essential": "useful", "no": "little",
}  # fmt: skip
_STRENGTH = re.compile(rf"\b(?:{'|'.join(_STRENGTHS)})\b", re.IGNORECASE)


class Arguments:
    """Makes one error of a type drawn from `types`. If this error is impossible, another type is drawn.

    If two arguments share half of their content words, they may say the same. Such arguments are neither removed nor
    added.

    Args:
        examples: Examples without errors. Their topic is the group `topic`, or the document if there is no such group.
        types: Some of `TYPES`. Default: `FULL`.
        topics: The topics that the examples name by id. Arguments to add are taken from them, in a wording like that of
            the given arguments, so that their style does not give them away. Default: added arguments come from other
            examples with the same topic.
    """

    name = "arguments"
    types = TYPES

    def __init__(
        self, examples: Iterable[Example], *, types: Sequence[str] | None = None, topics: Iterable[Topic] | None = None
    ) -> None:
        self._types = FULL if types is None else chosen_names("error type of arguments", types, TYPES)
        self._pool: dict[tuple[str | None, str | None], dict[str, Argument]] = {}
        for example in examples if topics is None else ():
            topic, wording = _topic_of(example)
            of_topic = self._pool.setdefault((topic, wording), {})
            for source in example.case.sources:
                argument = Argument(source.id, source.perspective or "", source.text)
                of_topic.setdefault(source.id if wording else normal_form(source.text), argument)
        for each in topics or ():
            for wording, reworded in (("same", False), ("other", True), (None, False)):
                usable = usable_topic(each, reworded=reworded) or each
                self._pool[each.id, wording] = {argument.id: argument for argument in usable.arguments}

    def change(self, example: Example, draw: random.Random) -> Example | str:
        """Put an error into the example and mark it in the gold, or return why the example cannot be used."""
        result: Example | str = ""
        for kind in draw.sample(self._types, len(self._types)):
            result = self.make(kind, example, draw)
            if isinstance(result, Example):
                break
        return result

    def make(self, kind: str, example: Example, draw: random.Random) -> Example | str:
        """Put an error of this type into the example and give it the id CASE/TYPE, or say why that fails."""
        if not any(source.must_cover for source in example.case.sources):
            return "no argument that has to be covered"
        made: Example | str = getattr(self, f"_{kind.replace('-', '_')}")(example, draw)
        if isinstance(made, str):
            return made
        case, gold = replace(made.case, id=f"{example.case.id}/{kind}", prompt=None), made.gold
        omission = max((o.score for o in gold.omissions), default=gold.omission)
        gold = replace(gold, case_id=case.id, by="corrupt:arguments", omission=omission)
        kinds = {"removed": "extrinsic", "added": "omission", "both": "extrinsic and omission"}
        return made_from(example, case, gold, corrupted=kind, kind=kinds.get(kind, "ambiguous"))

    def _added(self, example: Example, draw: random.Random) -> Example | str:
        """Add an argument of the topic to the sources, which the response does not state."""
        given = [source for source in example.case.sources if source.must_cover]
        topic, wording = _topic_of(example)
        sides = {source.perspective for source in given}
        given_ids = {source.id for source in given} if wording else set()
        unused = [
            argument.source(draw.choice(argument.paraphrases) if wording == "other" and argument.paraphrases else None)
            for argument in self._pool.get((topic, wording), {}).values()
            if argument.perspective in sides and argument.id not in given_ids
        ]
        unused = [
            source
            for source in unused
            if not any(_alike(source, other) for other in given)
            and not _stems(source.text) <= _stems(example.case.response)
        ]
        if not unused:
            return "its topic has no argument that is not used"
        taken = {source.id for source in example.case.sources}
        source = draw.choice(unused)
        ids = (source.id, *(f"{source.id}+{i}" for i in range(1, len(taken) + 2)))
        source = replace(source, id=next(id for id in ids if id not in taken), must_cover=True)
        last = max(i for i, other in enumerate(example.case.sources) if other.perspective == source.perspective)
        sources = (*example.case.sources[: last + 1], source, *example.case.sources[last + 1 :])
        left_out = Omission(source.id, Span(0, len(source.text)), 1.0, "not in the response")
        return _with(example, sources, omissions=(*example.gold.omissions, left_out))

    def _removed(self, example: Example, draw: random.Random) -> Example | str:
        """Remove an argument from the sources, which the response still states."""
        given = [source for source in example.case.sources if source.must_cover]
        unlike = [s for s in given if not any(_alike(s, other) for other in example.case.sources if other is not s)]
        if len(given) < 2 or not unlike:
            return "no argument that can be removed" if len(given) < 2 else "its arguments may say the same"
        source = draw.choice(unlike)
        sources = tuple(other for other in example.case.sources if other is not source)
        reason = f"the argument {source.text!r} is not given"
        verdicts = tuple(
            replace(verdict, score=1.0, label="removed", evidence=(), reason=reason)
            if any(evidence.source_id == source.id for evidence in verdict.evidence)
            else verdict
            for verdict in example.gold.verdicts
        )
        if not any(verdict.score >= GOLD_THRESHOLD for verdict in verdicts):
            verdicts = ()  # the gold does not mark the words that state the argument
        omissions = tuple(o for o in example.gold.omissions if o.source_id != source.id)
        return _with(example, sources, hallucination=1.0, verdicts=verdicts, omissions=omissions)

    def _both(self, example: Example, draw: random.Random) -> Example | str:
        """Remove one argument from the sources and add another one."""
        added = self._added(example, draw)
        removed = added if isinstance(added, str) else self._removed(example, draw)
        if isinstance(added, str) or isinstance(removed, str):
            return removed
        (gone,) = {source.id for source in example.case.sources} - {source.id for source in removed.case.sources}
        sources = tuple(source for source in added.case.sources if source.id != gone)
        omissions = tuple(o for o in added.gold.omissions if o.source_id != gone)
        return _with(removed, sources, omissions=omissions)

    def _meaning(self, example: Example, draw: random.Random) -> Example | str:
        """Make one word of an argument stronger or weaker in the response."""
        marked = _marked(example)
        for verdict, _ in draw.sample(marked, len(marked)):
            matches = list(_STRENGTH.finditer(example.case.response, verdict.span.start, verdict.span.end))
            if not matches:
                continue
            match = draw.choice(matches)
            new = _STRENGTHS[match[0].lower()]
            place = Span(*match.span())
            edited = _edited(example, [Edit(place, new.capitalize() if match[0][0].isupper() else new, "meaning")])
            whole = edited.gold.verdicts[example.gold.verdicts.index(verdict)]
            changed = Span(place.start, place.start + len(new))
            wrong = Verdict(changed, 1.0, "meaning", reason=f"said for {match[0]!r}", correction=match[0])
            rest = (Span(whole.span.start, changed.start), Span(changed.end, whole.span.end))
            parts = [wrong, *(replace(whole, span=span) for span in rest if len(span))]
            verdicts = [other for other in edited.gold.verdicts if other is not whole] + parts
            return _with(edited, hallucination=1.0, verdicts=verdicts)
        return "no argument has a word that can be made stronger or weaker" if marked else _UNMARKED

    def _partly_given(self, example: Example, draw: random.Random) -> Example | str:
        """Cut off the end of an argument in the sources, which the response still states."""
        place = _cut_place(example, draw)
        if place is None:
            return "no argument that can be cut"
        verdict, source, size = place
        cut = replace(source, text=source.text[:size])
        sources = tuple(cut if other is source else other for other in example.case.sources)
        rest = verdict.span.of(example.case.response)[size:]
        begin = verdict.span.start + size + len(rest) - len(rest.lstrip(" ,"))
        tail = Verdict(Span(begin, verdict.span.end), 1.0, "partly-given", reason="this part is not given")
        head = replace(verdict, span=Span(verdict.span.start, verdict.span.start + size))
        verdicts = tuple(
            replace(v, evidence=tuple(e for e in v.evidence if e.source_id != source.id))
            for old in example.gold.verdicts
            for v in ((head, tail) if old is verdict else (old,))
        )
        whole = Span(0, size)
        omissions = tuple(replace(o, span=whole) if o.source_id == cut.id else o for o in example.gold.omissions)
        return _with(example, sources, hallucination=1.0, verdicts=verdicts, omissions=omissions)

    def _partly_said(self, example: Example, draw: random.Random) -> Example | str:
        """Cut off the end of an argument in the response."""
        place = _cut_place(example, draw)
        if place is None:
            return "no argument that can be cut"
        verdict, source, size = place
        edited = _edited(example, [Edit(Span(verdict.span.start + size, verdict.span.end), "", "partly-said")])
        parts = (
            Omission(source.id, Span(0, size), 0.0),
            Omission(source.id, Span(size, len(source.text)), 1.0, "this part is not in the response"),
        )
        omissions = tuple(new for o in edited.gold.omissions for new in (parts if o.source_id == source.id else (o,)))
        return _with(edited, omissions=omissions)

    def _repeated(self, example: Example, draw: random.Random) -> Example | str:
        """Repeat an argument at the end of its passage in the response."""
        marked = _marked(example)
        if not marked:
            return _UNMARKED
        verdict, _ = draw.choice(marked)
        text = example.case.response
        line_end = text.find("\n", verdict.span.end)
        end = len(text.rstrip()) if line_end < 0 else line_end
        opening = draw.choice((" Once more, they say that ", " They also repeat that "))
        clause = verdict.span.of(text).rstrip(" .")
        edited = _edited(example, [Edit(Span(end, end), f"{opening}{clause}.", "repeated")])
        place = Span(end + len(opening), end + len(opening) + len(clause))
        again = Verdict(place, 1.0, "repeated", evidence=verdict.evidence, reason="said before")
        return _with(edited, hallucination=1.0, verdicts=(*edited.gold.verdicts, again))

    def _swapped(self, example: Example, draw: random.Random) -> Example | str:
        """Exchange two arguments of different perspectives in the response."""
        text = example.case.response
        pairs = [
            (a, b)
            for (a, of_a), (b, of_b) in combinations(sorted(_marked(example), key=lambda pair: pair[0].span), 2)
            if of_a.perspective != of_b.perspective
            and not a.span.overlaps(b.span)
            and text[a.span.start].islower() == text[b.span.start].islower()
        ]
        if not pairs:
            return "no two arguments that can change sides"
        one, two = draw.choice(pairs)
        edits = [Edit(a.span, b.span.of(text), "swapped") for a, b in ((one, two), (two, one))]
        edited = _edited(example, edits)
        evidence_by_i = {example.gold.verdicts.index(one): two.evidence, example.gold.verdicts.index(two): one.evidence}
        verdicts = tuple(
            replace(v, score=1.0, label="swapped", evidence=evidence_by_i[i], reason="said for another perspective")
            if i in evidence_by_i
            else v
            for i, v in enumerate(edited.gold.verdicts)
        )
        ids = {evidence.source_id for evidence in (*one.evidence, *two.evidence)}
        omissions = tuple(replace(o, score=1.0) if o.source_id in ids else o for o in example.gold.omissions)
        return _with(edited, hallucination=1.0, verdicts=verdicts, omissions=omissions)


def each_error(
    examples: Iterable[Example], types: Sequence[str] = FULL, *, topics: Iterable[Topic] | None = None, seed: int = 0
) -> Iterator[Example]:
    """Yield each example, followed by a copy with each type of error that is possible in it (test sets of §4.3).

    The arguments are those of `Arguments`. What is drawn for an example does not depend on other examples.
    """
    examples = list(examples)
    way = Arguments(examples, types=types, topics=topics)
    for example in examples:
        yield grouped(example, corrupted="no")
        for kind in types:
            made = way.make(kind, example, random.Random(f"{seed}\0{kind}\0{example.case.id}"))
            if not isinstance(made, str):
                yield made


def _topic_of(example: Example) -> tuple[str | None, str | None]:
    """Return the name of the example's topic, and how its arguments are worded, each as far as it is known."""
    groups = dict(example.group)
    return groups.get("topic", example.document), groups.get("wording")


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(w) for span in words(text) if (w := span.of(text).casefold()) not in STOP_WORDS)


def _alike(one: Source, two: Source) -> bool:
    """Return whether two arguments may say the same: one has half of the other's content words, or all its words."""
    a, b = _stems(one.text), _stems(two.text)
    x, y = f" {normal_form(one.text)} ", f" {normal_form(two.text)} "
    return len(a & b) >= _ALIKE * min(len(a), len(b)) or x in y or y in x


def _marked(example: Example) -> list[tuple[Verdict, Source]]:
    """Return the verdicts that are about exactly one argument, each with this argument."""
    sources = {source.id: source for source in example.case.sources if source.must_cover}
    return [
        (verdict, sources[verdict.evidence[0].source_id])
        for verdict in example.gold.verdicts
        if verdict.score < GOLD_THRESHOLD and len(verdict.evidence) == 1 and verdict.evidence[0].source_id in sources
    ]


def _cut_place(example: Example, draw: random.Random) -> tuple[Verdict, Source, int] | None:
    """Draw an argument that is stated word for word and has two parts. Return it with the length of its first part."""
    marked = _marked(example)
    for verdict, source in draw.sample(marked, len(marked)):
        clause = verdict.span.of(example.case.response).casefold()
        if not source.text.casefold().startswith(clause) or len(sentences(source.text)) > 1:
            continue
        for match in _CUT.finditer(source.text):
            if all(len(words(part)) >= _FEWEST for part in (source.text[: match.start()], source.text[match.end() :])):
                return verdict, source, match.start()
    return None


def _with(example: Example, sources: tuple[Source, ...] | None = None, **gold: Any) -> Example:
    """Give the example other sources and other values in its gold. Verdicts are put in order."""
    if "verdicts" in gold:
        gold["verdicts"] = tuple(sorted(gold["verdicts"], key=lambda verdict: verdict.span))
    case = example.case if sources is None else replace(example.case, sources=sources)
    return replace(example, case=case, gold=replace(example.gold, **gold))


def _edited(example: Example, edits: Sequence[Edit]) -> Example:
    """Apply `edits` to the response of the example, and move its verdicts along with their text."""
    case = replace(example.case, response=apply(example.case.response, edits))
    verdicts = tuple(replace(v, span=carry(v.span, edits)) for v in example.gold.verdicts)
    return replace(example, case=case, gold=replace(example.gold, verdicts=verdicts), annotations=())
