"""Signs and symbols: others around the same words are flagged, other typography is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors import load_detector
from veridical.detectors.default.copies import is_copied
from veridical.detectors.default.detector import PACKAGED
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.inference.artifact import DETECTOR
from veridical.records.decide import outcome
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.types import Case, Judgement, Outcome, Source
from veridical.text.signs import signed

GROWTH = "| Region | Growth |\n|---|---|\n| North | {} |\n| South | 4.1% |"
EXPORT = "| Feature | Free | Pro |\n|---|---|---|\n| Export | {} | {} |"
CHANGED = [  # a source, a response with another sign, and the places that are flagged
    ("The difference was significant at p < 0.05 in both groups.", "It was not, p > 0.05.", [">"]),
    ("The sample was stored at -20 °C for weeks.", "The sample was stored at 20 °C for weeks.", ["20 °"]),
    ("Revenue changed by 3.2% last year.", "Revenue changed by -3.2% last year.", ["-3.2%"]),
    (GROWTH.format("3.2%"), "Growth in the North was -3.2%.", ["-3.2%"]),
    (GROWTH.format("-3.2%"), "Growth in the North was 3.2%.", ["3.2%"]),
    ("Last year revenue changed by 3.2% in Norway.", "The firm saw a -3.2% change of revenue.", ["-3.2%"]),
    ("A monthly ticket costs $90 for adults.", "A monthly ticket costs €90 for adults.", ["€90"]),
    ("The service charge is 15% for groups.", "The service charge is $15 for groups.", ["$15"]),
    ("The donor's blood type is O-.", "The donor's blood type is O+.", ["O+"]),
    ("Her blood group is O- and she is 34.", "As the file says, her group is O+.", ["O+"]),
    ("The bond is rated BBB+ by the agency.", "The bond is rated BBB- by the agency.", ["BBB-"]),
    ("The loop runs while a != b holds.", "The loop runs while a == b holds.", ["=="]),
    ("The team moved its code from C++ to C#.", "The team moved its code from C# to C++.", ["C#", "C++"]),
    ("It was written in C++ at first.", "It was written in C at first.", ["C"]),
    ("Breakfast: ✓ Dinner: ✗", "Breakfast: ✗ Dinner: ✓", ["✗", "✓"]),
    (EXPORT.format("✗", "✓"), EXPORT.format("✓", "✗"), ["✓ | ✗"]),
    ("- [x] Backup done\n- [ ] Upgrade done", "- [ ] Backup done\n- [x] Upgrade done", ["- [ ]", "- [x]"]),
    ("Applicants must be aged ≥ 18 years.", "Applicants must be aged ≤ 18 years.", ["≤"]),
    ("Applicants must be aged ≥ 18 years.", "In short, they must be aged <= 18 years.", ["<="]),
    ("The area is proportional to r^2 here.", "The area is proportional to r*2 here.", ["*"]),
    ("The script runs build && test on each push.", "The script runs build || test on each push.", ["||"]),
    ("Sales ↑ in May, costs ↓ in June.", "Sales ↓ in May, costs ↑ in June.", ["↓", "↑"]),
    ("The reaction is A → B at first.", "The reaction is A <- B at first.", ["<-"]),
    ("The balance is -$250 today.", "The balance is $250 today.", ["$250"]),
    ("The offset is UTC+2 in summer.", "The offset is UTC-2 in summer.", ["-"]),
    ("Play an F♯ and then a B♭.", "Play an F♭ and then a B♯.", ["F♭", "B♯"]),
    ("Set x += 1 in the loop.", "Set x -= 1 in the loop.", ["-="]),
    ("The tolerance is ±5 mm.", "The tolerance is +5 mm.", ["+5"]),
    ("It goes on if (!ready) holds.", "It goes on if (ready) holds.", ["ready"]),
    ("It needs Na+ to work.", "It needs Na- to work.", ["Na-"]),
    ("Set A ⊂ B in the proof.", "Set A ⊃ B in the proof.", ["⊃"]),
    ("It got ★★★★☆ from critics.", "It got ★★☆☆☆ from critics.", ["★★☆☆☆"]),
]
SAME = [  # other typography, or less than the source says
    ("The sample was stored at −20 °C.", "The sample was stored at -20°C."),
    ("The sample was stored at -20 °C.", "The sample was stored at –20 ºC."),
    ("She said “it is done” on Monday.", 'She said "it is done" on Monday.'),
    ("Applicants must be aged ≥ 18 years.", "Applicants must be aged >=18 years."),
    ("It holds for a != b only.", "It holds for a ≠ b only."),
    ("The room is 4 × 5 metres.", "The room is 4 x 5 metres."),
    ("Wait… it is open until nine.", "Wait... it is open until nine."),
    ("The price is ＄９０ for ＡＢＣ members.", "The price is $90 for ABC members."),
    ("The price is $90 for ABC members.", "The price is ＄９０ for ＡＢＣ members."),
    ("The com\u00admit\u00adtee met in Oslo.", "The committee met in Oslo."),
    ("The committee met in Oslo.", "The com\u00admit\u00adtee met in Oslo."),
    ("The tower is open. Trams stop here.", "* **The tower** is open.\n* *Trams* stop here."),
    ("# Hours\n\n> The tower is **open** daily.", "The tower is open daily."),
    ("The tower is open. Trams stop here.", "✅ The tower is open.\n✅ Trams stop here."),
    ("The reaction is A -> B at first.", "The reaction is A → B at first."),
    ("The area is proportional to r² here.", "The area is proportional to r^2 here."),
    ("Use `build && test` on each push.", "Use build && test on each push."),
    ("The tower — built in 1889 — is open.", "The tower - built in 1889 - is open."),
    ("The tower – built in 1889 – is open.", "The tower, built in 1889, is open."),
    ("Tom & Jerry was made in 1940.", "Tom and Jerry was made in 1940."),
    ("R&amp;D costs rose in 2020.", "R&D costs rose in 2020."),
    ("The ticket costs 90 € for adults.", "The ticket costs €90 for adults."),
    ("Revenue fell by 3.2% last year.", "Revenue changed by -3.2% last year."),
    (GROWTH.format("-3.2%"), "The North fell by 3.2%."),
    ("The price rose by 5% in May.", "The price rose by +5% in May."),
    ("Acme™ Cloud costs $5.", "Acme Cloud costs $5."),
    ("Great news 🎉 the tower is open.", "Great news, the tower is open."),
    ("The price* is 90 dollars for adults.", "The price is 90 dollars for adults."),
    ("The ages were 10–20 years here.", "The ages were 10-20 years here."),
    ("Pre- and post-war houses stand here.", "Pre and post-war houses stand here."),
    ("The result was p<0.05 in both groups.", "The result was p < 0.05 in both groups."),
    ("It weighs ~5 kg when full.", "It weighs ≈5 kg when full."),
    ("Read/write access is given to Ana.", "Read / write access is given to Ana."),
    (EXPORT.format("✗", "✓"), EXPORT.format("✗", "✔")),
]


def case(source: str, response: str) -> Case:
    return Case("1", response, (Source("s", source),))


def judged(name: str, cases: list[Case]) -> list[tuple[Outcome, Judgement]]:
    detector = load_detector(name)
    thresholds = thresholds_in_force(detector)
    judgements = judge(detector, cases)
    return [(outcome(case, each, thresholds), each) for case, each in zip(cases, judgements, strict=True)]


@pytest.mark.parametrize(("source", "response", "places"), CHANGED)
def test_another_sign_is_a_discrepancy_and_the_same_is_none(source: str, response: str, places: list[str]) -> None:
    found = discrepancies(case(source, response))
    assert [each.span.of(response) for each in found] == places
    for each, place in zip(found, places, strict=True):
        assert each.reason.startswith("the source has ")
        assert each.reason.endswith(f", not {place}")
        assert each.correction in source
        assert each.evidence[0].span.of(source)
    assert discrepancies(case(source, source)) == ()


@pytest.mark.parametrize(("source", "response"), SAME)
def test_other_typography_is_no_discrepancy(source: str, response: str) -> None:
    assert discrepancies(case(source, response)) == ()


def test_a_sign_that_another_source_has_is_none() -> None:
    text = "The difference was p > 0.05."
    sources = (Source("a", "The difference was p < 0.05."), Source("b", "Later, the difference was p > 0.05."))
    assert discrepancies(Case("1", text, sources)) == ()


@pytest.mark.parametrize("name", ["overlap", "overlap:values", "verify:overlap:values"])
def test_overlap_and_verify_flag_signs(name: str) -> None:
    for result, _ in judged(name, [case(source, response) for source, response, _ in CHANGED]):
        assert result is Outcome.FLAGGED
    for result, _ in judged(name, [case(source, source) for source, _, _ in CHANGED]):
        assert result is Outcome.CLEAR


@pytest.mark.skipif(not (PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout")
def test_the_default_detector_marks_signs() -> None:
    results = judged("default", [case(source, response) for source, response, _ in CHANGED])
    for (result, judgement), (_, response, places) in zip(results, CHANGED, strict=True):
        assert result is Outcome.FLAGGED, response
        marked = {verdict.span.of(response): verdict.reason for verdict in judgement.verdicts}
        assert all(str(marked[place]).startswith("the source has ") for place in places)
    clear = [case(source, source) for source, _, _ in CHANGED] + [case(*pair) for pair in SAME]
    for (result, _), each in zip(judged("default", clear), clear, strict=True):
        assert result is Outcome.CLEAR, each.response


def test_copies_have_the_same_signs() -> None:
    for source, response, _ in CHANGED:
        assert not is_copied(response, source)
    assert not is_copied("It costs $90.", "It costs 90.")
    assert is_copied("It costs 90.", "It costs $90.")


@given(st.text(st.sampled_from("ab1 \n.-+<>=!*&|#[]()%$°²✓−\u00ad＄x"), max_size=40))
def test_signs_stand_in_their_text(text: str) -> None:
    read = signed(text)
    for i in range(len(read.forms) + 1):
        for part, signs in read.gap(i)._asdict().items():
            span = read.signs(i, part)
            assert (span is not None) == bool(signs)
            assert span is None or (0 <= span.start < span.end <= len(text))


@pytest.mark.parametrize("piece", ["a < ", "- ", "C++ ", "&amp; ", "\n>", "$1 ", "✓", "*", "a-", "-=", "\n- [x] a"])
def test_long_texts_take_linear_time(piece: str) -> None:
    assert discrepancies(case(piece * 3000, piece * 2000)) == ()
