"""Kinds of names by cues, names swapped within their kind, and names found by a pipeline."""

import random
from types import SimpleNamespace

from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.corrupt.name_kinds import NamePool, find_kinds, name_mentions, spacy_names
from veridical_lab.corrupt.rules import Rules

TEXT = (
    "The singer Ann Berg moved to Umbra. She lives in Lima with Ola Nord, who wrote of it. Berg sued Acme Inc in "
    "Quito. "
    "The Spanish team won the Moe Cup at the University of Riga near the River Moe."
)


def test_kinds() -> None:
    assert {span.of(TEXT): kind for span, kind in find_kinds(TEXT)} == {
        "Ann Berg": "person", "Berg": "person", "Ola Nord": "person", "Umbra": "name", "Lima": "place",
        "Quito": "place", "River Moe": "place", "Acme Inc": "organisation", "University of Riga": "organisation",
        "Spanish": "people", "Moe Cup": "event",
    }  # fmt: skip


def test_the_sources_show_kinds_that_the_response_does_not() -> None:
    assert [m.kind for m in name_mentions("So Ola Nord left Lima.")] == ["name", "name"]
    assert [m.kind for m in name_mentions("So Ola Nord left Lima.", [TEXT])] == ["person", "place"]


def test_names_are_swapped_within_their_kind() -> None:
    given = Example(Case("c", "Ola Nord left Lima.", (Source("a", TEXT),)), Judgement("c", "h", 0.0))
    rules = Rules([given], types=["name"])
    made = [rules.change(given, random.Random(seed)) for seed in range(40)]
    swaps = {
        (v.correction, v.span.of(m.case.response)) for m in made if isinstance(m, Example) for v in m.gold.verdicts
    }
    assert swaps == {("Ola Nord", "Ann Berg"), ("Lima", "Quito")}


def test_a_pool_gives_what_is_alike() -> None:
    (mention,) = name_mentions("The singer Eva Lind left.")
    assert set(NamePool([TEXT]).like("The singer Eva Lind left.", mention)) == {"Ann Berg", "Ola Nord"}


def test_names_of_a_pipeline() -> None:
    def pipeline(text: str) -> SimpleNamespace:
        named = [(text.index(name), name, label) for name, label in (("the Moe Cup", "EVENT"), ("Umbra", "ORG"))]
        entities = [SimpleNamespace(start_char=i, end_char=i + len(n), label_=label) for i, n, label in named]
        return SimpleNamespace(ents=[*entities, SimpleNamespace(start_char=0, end_char=3, label_="CARDINAL")])

    assert [span.of(TEXT) for span in spacy_names(pipeline)(TEXT)] == ["Moe Cup", "Umbra"]
