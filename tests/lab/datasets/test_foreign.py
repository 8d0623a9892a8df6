"""The sources of a case among those of other documents."""

import pytest

from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.datasets.foreign import among_foreign


def example(document: int, version: str) -> Example:
    sources = (Source("1", f"title {document}"), Source("2", f"text {document}", must_cover=True))
    case = Case(f"{document}/{version}", "It is.", sources)
    return Example(case, Judgement(case.id, "human:a", 0.0), document=str(document))


EXAMPLES = [example(document, version) for document in range(40) for version in ("right", "wrong")]


def test_the_own_sources_are_whole_among_two_foreign_passages() -> None:
    made = among_foreign(EXAMPLES, 2)
    places, foreign = set(), set()
    for before, after in zip(EXAMPLES, made, strict=True):
        ids = [source.id for source in after.case.sources]
        first = ids.index("1")
        assert after.case.sources[first : first + 2] == before.case.sources
        others = [s for s in after.case.sources if s.id.startswith("foreign ")]
        assert [s.id for s in others] == ["foreign 1/1", "foreign 1/2", "foreign 2/1", "foreign 2/2"]
        assert not any(s.must_cover for s in others)
        texts = {s.text.split()[1] for s in others}
        assert len(texts) == 2
        assert before.document not in texts
        assert (after.gold, after.document, after.case.response) == (before.gold, before.document, "It is.")
        places.add(first)
        foreign |= texts
    assert places == {0, 2, 4}
    assert len(foreign) > 20
    for right, wrong in zip(made[::2], made[1::2], strict=True):
        assert right.case.sources == wrong.case.sources


def test_the_seed_and_the_documents_decide_not_the_order() -> None:
    made = {e.case.id: e for e in among_foreign(EXAMPLES, 2)}
    assert {e.case.id: e for e in among_foreign(EXAMPLES[::-1], 2)} == made
    assert {e.case.id: e for e in among_foreign(EXAMPLES, 2, seed=1)} != made


def test_cases_without_sources_stay_and_too_few_documents_are_refused() -> None:
    bare = Example(Case("x", "It is."), Judgement("x", "human:a", 0.0))
    assert among_foreign([*EXAMPLES, bare], 1)[-1] == bare
    with pytest.raises(InputError, match="2 documents have sources"):
        among_foreign(EXAMPLES[:4], 2)
