"""Values: the same number with another unit or magnitude is flagged, another form of the same value is not."""

from __future__ import annotations

import pytest

from tests.detectors.test_signs import case, judged
from veridical.detectors.default.detector import PACKAGED
from veridical.detectors.discrepancies.finding import discrepancies
from veridical.detectors.discrepancies.values import ambiguous_dates
from veridical.inference.artifact import DETECTOR
from veridical.records.types import Outcome

CHANGED = [
    ("The file has a size of 2 GB.", "The file has a size of 2 MB."),
    ("Take 500 mcg of it per day.", "Take 500 mg of it per day."),
    ("The tank holds 40 litres.", "The tank holds 40 millilitres."),
    ("The request took 30 ms.", "The request took 30 s."),
    ("The timeout is 30 seconds.", "The timeout is 30 minutes."),
    ("Take the tablet twice a day.", "Take the tablet once a day."),
    ("Take the tablet twice daily with food.", "Take one tablet three times daily."),
    ("Revenue was $890,000,000 in 2020.", "Revenue was $890K in 2020."),
    ("Revenue was $890 million in 2020.", "Revenue was $890 billion in 2020."),
    ("The lake has a depth of 12 metres.", "The lake has a depth of 12 kilometres."),
    ("The engine has 150 kW of power.", "The engine has 150 MW of power."),
    ("The speed is 100 km/h on this road.", "The speed is 100 mph on this road."),
    ("It weighs 20 kg.", "It weighs 20 g."),
    ("The backup runs every 6 hours.", "The backup runs every 6 days."),
    ("The area is 45 hectares.", "The area is 45 acres."),
    ("The rent is 900 euros a month.", "The rent is 900 euros a week."),
    ("The rent is 900 euros a month.", "The flat has a rent of 900 euros per week, plus heating."),
    ("The loan costs 4 per cent a year.", "The loan costs 4% a month."),
    ("About 30 visitors a day come.", "About 30 visitors a week come."),
    ("The pump moves 30 l/min.", "The pump moves 30 litres per hour."),
    ("It costs 12 euros a month or 120 euros a year.", "It costs 120 euros a month."),
    ("The monthly rent is 900 euros.", "The weekly rent is 900 euros."),
]
BOTH_WAYS = [
    ("A dozen eggs are in the box.", "12 eggs are in the box."),
    ("Add ½ cup of milk.", "Add 1/2 cup of milk."),
    ("The office closes at noon.", "The office closes at 12:00."),
    ("The disk has 2,048 MB.", "The disk has 2 GB."),
    ("The novel is set in nineteen eighty-four.", "The novel is set in 1984."),
    ("Fifteen hundred people came.", "1,500 people came."),
    ("It was minus 5 degrees in the night.", "It was −5 °C in the night."),
    ("The pen costs 99¢.", "The pen costs $0.99."),
    ("Chapter IV covers refunds.", "Chapter 4 covers refunds."),
    ("He fought in World War II.", "He fought in the Second World War."),
    ("It was signed on 05/01/2020.", "It was signed on 1 May 2020."),
    ("It costs €5.50.", "It costs 5 euros and 50 cents."),
    ("Take it once a day.", "Take it daily."),
]
SAME = [
    *BOTH_WAYS,
    *((response, source) for source, response in BOTH_WAYS),
    ("The ratio is 3/4 of all cases.", "The ratio is ¾ of all cases."),
    ("Sales were EUR 890.500.000 in 2020.", "Sales were 890.5 million euros in 2020."),
    ("The bar closes at midnight.", "The bar closes at 00:00."),
    ("It was signed on 05/01/2020.", "It was signed on 5 January 2020."),
    ("It costs 5 pounds and 20 pence.", "It costs £5.20."),
    ("Take the tablet twice a day.", "Take the tablet two times a day."),
    ("Take the tablet twice a day.", "Take the tablet twice daily."),
    ("Wait 90 seconds for it.", "Wait 1.5 minutes for it."),
    ("Wait half an hour for it.", "Wait 30 minutes for it."),
    ("The tank holds 40 litres.", "The tank holds 40 l."),
    ("The request took 1,500 ms.", "The request took 1.5 s."),
    ("The rent is 900 euros a month.", "The monthly rent is 900 euros."),
    ("Monthly rent: €900", "The rent is 900 euros per month."),
    ("The loan costs 4 per cent a year.", "The loan costs 4% annually."),
    ("The committee meets every week.", "The committee meets weekly."),
    ("The index changed by -2.5% on Friday.", "The index fell 2.5% on Friday."),
    ("Revenue changed by -3.2%.", "Revenue declined by 3.2%."),
]
UNCLEAR = [
    ("The file has 2 GB. The copy has 3.", "The file has 2 GB, and the copy 3 MB."),  # the source does not say the unit
    ("The walk takes 5 hours and the bag weighs 5 kg.", "The walk takes 5 hours, so 300 minutes."),
    ("He paid $890 million.", "He paid about $900 million."),
    ("Sales rose to 1 million.", "Sales rose from 1,000."),  # one digit may be the same by chance
    ("Profit was -$5 million.", "The loss was $5 million."),
    ("It fell 3.2%.", "The change was -3.2%."),
    ("The tax is 5%.", "The fee is 5 euros."),  # another thing
    ("Until May they met once a week; now it is twice.", "Now they meet twice a week."),
    ("She earns $20 an hour and works 20 hours a week.", "She earns $20 an hour."),
    ("It opens 5 days a week. Lunch is free on 5 days.", "Lunch is free on 5 days a month."),
    ("The tent costs 20 euros a night.", "A guide leads 20 people a week."),
]
CORRECTED = [  # rates whose period stands before the value in one of both texts
    ("The rent is 900 euros a month.", "The weekly rent is 900 euros.", "The monthly rent is 900 euros."),
    ("The monthly rent is 900 euros.", "The rent is 900 euros a week.", "The rent is 900 euros a month."),
    ("Monthly rent: €900", "The rent is 900 euros weekly.", "The rent is 900 euros monthly."),
]


@pytest.mark.parametrize(("source", "response"), CHANGED)
def test_another_unit_is_a_discrepancy(source: str, response: str) -> None:
    (found,) = discrepancies(case(source, response))
    assert found.correction in source
    assert found.reason == f"the source has {found.correction}, not {found.span.of(response)}"
    assert discrepancies(case(source, source)) == ()


@pytest.mark.parametrize(("source", "response", "right"), CORRECTED)
def test_the_correction_of_a_rate_stands_where_its_period_stood(source: str, response: str, right: str) -> None:
    (found,) = discrepancies(case(source, response))
    assert found.correction is not None
    assert response[: found.span.start] + found.correction + response[found.span.end :] == right


@pytest.mark.parametrize(("source", "response"), SAME + UNCLEAR)
def test_the_same_value_and_another_one_are_none(source: str, response: str) -> None:
    assert discrepancies(case(source, response)) == ()


@pytest.mark.skipif(not (PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout")
def test_the_default_detector_decides_them() -> None:
    same = [*SAME, *((source, source) for source, _ in CHANGED)]
    for pairs, wanted in ((CHANGED, Outcome.FLAGGED), (same, Outcome.CLEAR)):
        cases = [case(*pair) for pair in pairs]
        for (result, judgement), each in zip(judged("default", cases), cases, strict=True):
            assert result is wanted, each.response
            assert judgement.notes == tuple(ambiguous_dates(each)), each.response


@pytest.mark.parametrize("name", ["overlap:values", "verify:overlap:values"])
def test_an_ambiguous_date_is_noted(name: str) -> None:
    note = "the date 05/01/2020 is ambiguous (1 May or 5 January 2020): it was accepted in either order"
    texts = ["It was signed on 05/01/2020.", "It was signed on 1 May 2020.", "It was signed on 5/1/2020."]
    cases = [case(source, response) for source in texts for response in texts]
    noted = [note in judgement.notes for _, judgement in judged(name, cases)]
    assert noted == [False, True, False, True, False, False, False, False, False]
    assert list(ambiguous_dates(case("It was on 13/05/2020.", "It was on 13 May 2020."))) == []


@pytest.mark.parametrize("name", ["overlap", "overlap:values", "verify:overlap:values"])
def test_marks_of_notes_and_forms_of_powers_are_no_difference(name: str) -> None:
    pairs = [("The tower² is 330¹ m tall.", "The tower is 330 m tall.")]
    pairs.append((pairs[0][1], pairs[0][0]))
    if name != "overlap":  # its words have no units
        pairs.append(("It has 80 m² of floor.", "It has 80 m^2 of floor."))
    assert {judgement.hallucination for _, judgement in judged(name, [case(*pair) for pair in pairs])} == {0.0}
    ((result, _),) = judged(name, [case("The tower is 330¹ m tall.", "The tower is 3301 m tall.")])
    assert result is Outcome.FLAGGED


def test_verify_flags_another_unit() -> None:
    for result, _ in judged("verify:overlap:values", [case(*pair) for pair in CHANGED]):
        assert result is Outcome.FLAGGED
