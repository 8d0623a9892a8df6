import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.spans import Span
from veridical_lab.datasets.e2e_slots import VALUES, Unplaced, meaning, place_slots, says

# How people write a value: what stands before it, the value's form, what stands behind it.
FORMS: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    ("name", "The Eagle"): [("", "The Eagle", ""), ("a place called ", "Eagle", ""), ("at ", "the eagle", "")],
    ("name", "Café Rouge"): [("", "Cafe Rouge", ""), ("at ", "CAFÉ ROUGE", "")],
    ("near", "Crowne Plaza Hotel"): [("near the ".replace("the ", ""), "Crowne Plaza Hotel", "")],
    ("near", "Café Brazil"): [("close to ", "Café Brazil", "")],
    ("eatType", "coffee shop"): [("it is a ", "coffee shop", ""), ("", "coffee-shop", "")],
    ("eatType", "pub"): [("a ", "pub", " to go to")],
    ("food", "English"): [("it serves ", "English", " food"), ("with ", "British", " dishes")],
    ("food", "Fast food"): [("it serves ", "fast food", "")],
    ("priceRange", "cheap"): [("a ", "cheap", " place"), ("at a ", "low", " price"), ("prices are ", "low", "")],
    ("priceRange", "less than £20"): [("it costs ", "less than £20", ""), ("for ", "under 20 pounds", "")],
    ("priceRange", "£20-25"): [("in the ", "£20-25", " range"), ("for ", "20 to 25 pounds", "")],
    ("priceRange", "high"): [("an ", "expensive", " place"), ("the price range is ", "high", "")],
    ("customer rating", "low"): [("with a ", "low", " customer rating"), ("it is ", "poorly", " rated")],
    ("customer rating", "3 out of 5"): [("rated ", "3 out of 5", ""), ("with ", "three stars", "")],
    ("customer rating", "5 out of 5"): [("its customer rating is ", "5 out of 5", ""), ("a ", "5-star", " place")],
    ("area", "riverside"): [("in the ", "riverside", " area"), ("by the ", "river", "")],
    ("area", "city centre"): [("in the ", "city center", ""), ("in the ", "centre of the city", "")],
    ("familyFriendly", "yes"): [("it is ", "family friendly", ""), ("a ", "kid-friendly", " place")],
    ("familyFriendly", "no"): [("it is ", "not family-friendly", ""), ("for ", "adults only", "")],
}


@st.composite
def descriptions(draw: st.DrawFn) -> tuple[str, dict[tuple[str, str], list[Span]]]:
    """A description that says some slots, and the place of every form in it."""
    names = draw(st.lists(st.sampled_from(sorted({name for name, _ in FORMS})), min_size=1, unique=True))
    slots = [draw(st.sampled_from([slot for slot in FORMS if slot[0] == name])) for name in names]
    said = [(slot, draw(st.sampled_from(FORMS[slot]))) for slot in slots]
    again = draw(st.lists(st.sampled_from(said), max_size=2))
    text = draw(st.sampled_from(["", "🍵 ", "Well; "]))
    places: dict[tuple[str, str], list[Span]] = {}
    for slot, (before, form, after) in [*said, *again]:
        text += before
        places.setdefault(slot, []).append(Span(len(text), len(text) + len(form)))
        text += form + after + draw(st.sampled_from([". ", "; ", ", \n"]))
    return text, places


@given(descriptions())
def test_every_form_is_found_where_it_stands(made: tuple[str, dict[tuple[str, str], list[Span]]]) -> None:
    text, places = made
    slots = list(places)
    for slot, found in zip(slots, place_slots(text, slots), strict=True):
        assert found == tuple(places[slot]), (slot, text)
        assert says(text, slot, beside=[s for s in slots if s != slot])


@given(descriptions())
def test_what_is_not_said_is_not_found(made: tuple[str, dict[tuple[str, str], list[Span]]]) -> None:
    text, places = made
    said = {(name, meaning((name, value))) for name, value in places}
    for slot in FORMS:
        if (slot[0], meaning(slot)) not in said:
            assert not says(text, slot, beside=list(places)), (slot, text)
            (*_, found) = place_slots(text, [*(s for s in places if s[0] in ("name", "near")), slot])
            assert isinstance(found, Unplaced), (slot, text)


@pytest.mark.parametrize(
    ("text", "slot", "why"),
    [
        ("A moderately priced place.", ("priceRange", "cheap"), "another value is said"),
        ("It is not family friendly.", ("familyFriendly", "yes"), "another value is said"),
        ("A cheap place, good if you are on a budget.", ("priceRange", "cheap"), "a vague mention"),
        ("Kid friendly, so bring your family.", ("familyFriendly", "yes"), "a vague mention"),
        ("Ponies are welcome.", ("familyFriendly", "yes"), "not found"),
        ("The Crown Plaza is near.", ("near", "Crowne Plaza Hotel"), "not found"),
        ("A high price and a good rating.", ("customer rating", "high"), "not found"),
    ],
)
def test_what_is_unclear_has_no_place(text: str, slot: tuple[str, str], why: str) -> None:
    assert place_slots(text, [slot]) == [Unplaced(why)]


@pytest.mark.parametrize(
    ("text", "rating", "price"),
    [
        ("It has a high customer rating and low prices.", ["high"], ["low"]),
        ("Prices are high and it is poorly rated.", ["poorly"], ["high"]),
        ("The price range is high and the customer rating is low.", ["low"], ["high"]),
        ("A low-priced place with an average rating.", ["average"], ["low"]),
        ("1 out of 5 stars, less than £20.", ["1 out of 5 stars"], ["less than £20"]),
    ],
)
def test_grades_belong_to_what_they_grade(text: str, rating: list[str], price: list[str]) -> None:
    for name, expected in (("customer rating", rating), ("priceRange", price)):
        found = [place_slots(text, [(name, value)])[0] for value in VALUES[name]]
        placed = {tuple(s.of(text) for s in places) for places in found if not isinstance(places, Unplaced)}
        assert placed == {tuple(expected)}


def test_names_come_first() -> None:
    slots = [("near", "Café Brazil"), ("name", "The English Pub"), ("food", "English"), ("eatType", "pub")]
    text = "The English Pub near Café Brazil."
    found = place_slots(text, slots)
    assert [place.of(text) for (place,) in found[:2]] == ["Café Brazil", "The English Pub"]
    assert found[2:] == [Unplaced("not found")] * 2


def test_a_slot_of_no_table_is_looked_for_verbatim() -> None:
    text = "It plays jazz; all that Jazz."
    assert place_slots(text, [("music", "jazz"), ("food", "Jazz")]) == [
        (Span(9, 13), Span(24, 28)),
        Unplaced("not found"),
    ]
