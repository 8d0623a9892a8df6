import pytest

from veridical import Case, Judgement, Source
from veridical.detectors import load_detector

EAGLE = ("name[The Eagle]", "eatType[pub]", "priceRange[less than £20]", "area[riverside]", "familyFriendly[no]")


def judged(response: str, *attributes: str) -> Judgement:
    sources = tuple(Source(a.partition("[")[0], a, must_cover=True) for a in attributes or EAGLE)
    (judgement,) = load_detector("slots").judge([Case("1", response, sources)])
    return judgement


def marked(response: str, *attributes: str) -> list[tuple[str, str | None]]:
    return [(v.span.of(response), v.label) for v in judged(response, *attributes).verdicts]


def left_out(judgement: Judgement) -> dict[str, float]:
    return {o.source_id: o.score for o in judgement.omissions}


def test_a_right_description() -> None:
    judgement = judged("The Eagle is a cheap pub by the river that is not family friendly.")
    assert (judgement.hallucination, judgement.omission, judgement.verdicts) == (0.0, 0.0, ())
    assert left_out(judgement) == dict.fromkeys(("name", "eatType", "priceRange", "area", "familyFriendly"), 0.0)


@pytest.mark.parametrize(
    ("response", "wrong"),
    [
        ("The Eagle is a family friendly pub.", [("family friendly", "familyFriendly[yes]")]),
        ("The Eagle serves French food.", [("French", "food[French]")]),
        ("The Eagle is near Hyde Park.", [("Hyde Park", "near[Hyde Park]")]),
        ("The Eagle is near the riverside. It is cheap.", []),
        ("The Red Door is a cheap pub.", [("The Red Door", "name[The Red Door]")]),
        ("There is a pub called Red Door.", [("Red Door", "name[Red Door]")]),
        ("It is a cheap pub. The Eagle is by the river.", []),
        ("Eagle Inn is a pub.", []),  # the same name, badly written
    ],
)
def test_what_no_attribute_says_is_marked(response: str, wrong: list[tuple[str, str]]) -> None:
    assert marked(response) == wrong
    assert judged(response).hallucination == float(bool(wrong))


def test_the_reason_names_what_is_given() -> None:
    (verdict,) = judged("The Eagle is a coffee shop.").verdicts
    assert verdict.reason == "given is eatType[pub]"
    assert [e.source_id for e in verdict.evidence] == ["eatType"]
    (verdict,) = judged("The Eagle is highly rated.").verdicts
    assert (verdict.reason, verdict.evidence) == ("no customer rating is given", ())


def test_what_is_left_out_and_what_is_vague() -> None:
    judgement = judged("The Eagle is an affordable pub that is both cheap and moderately priced.")
    assert left_out(judgement) == {
        "name": 0.0, "eatType": 0.0, "priceRange": 0.0, "area": 1.0, "familyFriendly": 1.0
    }  # fmt: skip
    judgement = judged("The Eagle is an affordable pub.")
    assert left_out(judgement) == {"name": 0.0, "eatType": 0.0, "area": 1.0, "familyFriendly": 1.0}
    assert judgement.judged_sources is not None
    assert [place.source_id for place in judgement.judged_sources] == ["name", "eatType", "area", "familyFriendly"]


def test_sources_that_are_no_attributes_are_not_judged() -> None:
    judgement = judged("The Eagle is a pub.", "name[The Eagle]", "a pub by the river")
    assert (judgement.hallucination, judgement.judged) == (None, ())
    assert "is no attribute" in judgement.notes[0]
