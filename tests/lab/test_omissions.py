"""What is left out is put in, where it belongs, and only where the text gets better."""

from collections.abc import Sequence

import pytest

from veridical.detectors import load_detector
from veridical.records.types import Case, Judgement, Omission, Source, Span, Verdict
from veridical_lab.revise.omissions import put_in

SOURCES = (
    Source("p1", "Cars pollute the air.", "pro", must_cover=True),
    Source("p2", "Streets are safer without cars.", "pro", must_cover=True),
    Source("c1", "Shops lose customers.", "con", must_cover=True),
    Source("c2", "Ban of deliveries", "con", must_cover=True),
)
TEXT = "Cars pollute the air.\n\nShops lose customers.\n"


def test_each_in_its_passage() -> None:
    (result,) = put_in([Case("1", TEXT, SOURCES)], load_detector("overlap"))
    assert result.revision.text == (
        "Cars pollute the air. It is also said that streets are safer without cars.\n\n"
        "Shops lose customers. Another argument: Ban of deliveries.\n"
    )
    assert (result.before.omission, result.after.omission) == (pytest.approx(4 / 7), 0.0)
    assert [edit.because for edit in result.revision.edits] == [
        "left out: “Streets are safer without cars.”",
        "left out: “Ban of deliveries”",
    ]


def test_a_source_without_perspective_is_put_in_as_it_is() -> None:
    sources = (Source("a", "It is red.", must_cover=True), Source("b", "The price fell to 9", must_cover=True))
    (result,) = put_in([Case("1", "It is red.", sources)], load_detector("overlap"))
    assert result.revision.text == "It is red. The price fell to 9."


def test_nothing_to_do() -> None:
    whole = Case("1", "It is red.", (Source("a", "It is red.", must_cover=True),))
    results = put_in([whole, Case("2", "It is red.", (Source("a", "It is red."),))], load_detector("overlap"))
    assert [result.reason for result in results] == ["nothing is left out", "no source has to be covered"]
    assert not any(result.changed for result in results)


class _Stubborn:
    """Finds the same left out whatever is done, or (`worse`) what was put in unsupported."""

    name = "stubborn"

    def __init__(self, *, worse: bool) -> None:
        self.worse = worse

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        longer = len(case.response) > len(TEXT)
        omission = 0.1 if self.worse and longer else 0.9
        verdicts = (
            (Verdict(Span(len(case.response) - 4, len(case.response) - 1), 1.0),) if longer and self.worse else ()
        )
        omissions = (Omission("p2", Span(0, len(SOURCES[1].text)), omission),)
        return Judgement(case.id, self.name, 0.2, omission, verdicts, omissions)


@pytest.mark.parametrize(
    ("worse", "reason"),
    [
        (False, "no less is left out: omission 0.900 before, 0.900 after"),
        (True, "more of the text would be unsupported"),
    ],
)
def test_what_is_not_better_is_not_kept(worse: bool, reason: str) -> None:
    (result,) = put_in([Case("1", TEXT, SOURCES)], _Stubborn(worse=worse))
    assert (result.revision.text, result.reason) == (TEXT, reason)
    assert [attempt.kept for attempt in result.rounds] == [False]
