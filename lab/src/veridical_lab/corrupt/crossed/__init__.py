"""Make crossed examples about relations: two sources and two statements, each supported by exactly one source.

The texts are real and parsed once (`parsing`). For each kind of relation, rules make the statements and a second
source. Neither the words of a statement nor its word overlap with the source reveals its label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from veridical.records.types import Example
from veridical_lab.corrupt import chosen_names
from veridical_lab.corrupt.crossed import certainty, comparison, counts, links, negation, roles, scope, stitched
from veridical_lab.corrupt.crossed.crossing import Crossing, examples_of
from veridical_lab.corrupt.crossed.parsing import Document, read_parsed
from veridical_lab.corrupt.crossed.scenes import Scene

__all__ = ["KINDS", "crossed_examples", "relation_examples"]

Rule = Callable[[Scene, int, Random], Iterator[Crossing]]

KINDS: Mapping[str, Sequence[Rule]] = {
    "roles": (roles.roles,),
    "voice": (roles.voices,),
    "converse": (roles.converses,),
    "cause": (links.causes, roles.causes_by_verb),
    "order": (links.orders,),
    "certainty": (certainty.certainties, certainty.hedges, certainty.plans, certainty.reports),
    "stitched": (stitched.stitched_subjects, stitched.stitched_values),
    "scope": (scope.quantifiers, scope.original_quantifiers, scope.pairs, scope.restrictions, scope.bounds),
    "negation": (
        *(negation.moved_negations, negation.failures, negation.without),
        *(negation.never, negation.no_longer, negation.not_only),
    ),
    "count": (counts.lists,),
    "comparison": (comparison.comparatives, comparison.superlatives, comparison.numbers),
}
"""The rules of each kind of relation."""

_SHARES: Mapping[Rule, float] = {certainty.certainties: 0.12, scope.quantifiers: 0.5, scope.restrictions: 0.08}
"""The fraction of sentences that a rule tries. Without it, the relations of these rules would outnumber the others."""


def relation_examples(
    folder: Path, *, seed: int = 0, part: str = "train", kinds: Sequence[str] | None = None
) -> Iterator[Example]:
    """Make labelled cases about relations from parsed texts, four for each relation, as a stream.

    The same seed gives the same cases. Another seed gives another order and other cases. The documents are read in
    random order, so the first cases are a random sample. If you need fewer cases, stop after a complete document or
    relation, because the four cases of a relation balance each other.

    The groups are `relation` (the kind), `form` (how it was made), `pair` (the same for the four cases) and `corrupted`
    (the kind, or "no"). Verdicts mark the wrong words.

    Args:
        folder: A folder made by `parsing.parse`.
        part: "train" or "valid", split by document.
        kinds: Names in `KINDS`. Default: all kinds.

    Raises:
        InputError: The folder has no such part.
        UnknownNameError: A kind is unknown.
    """
    chosen = tuple(KINDS) if kinds is None else chosen_names("kind of relation", kinds, KINDS)
    for document in read_parsed(folder, part, seed=seed):
        yield from crossed_examples(document, seed=seed, kinds=chosen)


def crossed_examples(document: Document, *, seed: int = 0, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Example]:
    """Make the cases of one parsed document. See `relation_examples`."""
    draw = Random(f"{seed}\0crossed\0{document.id}")
    scene = Scene(document)
    rules = [rule for kind in kinds for rule in KINDS[kind]]
    for i in scene.trees:
        tried = [rule for rule in rules if rule not in _SHARES or draw.random() < _SHARES[rule]]
        crossings = {f"{c.kind}/{c.form}": c for rule in tried for c in rule(scene, i, draw)}
        for name, crossing in crossings.items():
            yield from examples_of(crossing, scene.text, f"{scene.id}/{i}/{name}", scene.id, draw)
