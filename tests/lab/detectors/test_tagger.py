import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import InputError, MissingExtraError
from veridical.text.segment import words
from veridical_lab.detectors.features.tagger import ENTITIES, PARTS_OF_SPEECH, RuleTagger, SpacyTagger, load_tagger

TEXT = (
    "Dr. Anna Berg, who led the study at Oxford University, said in Paris on 3 May 2021 that 1,250 tonnes and "
    "$5 million, or 20%, were lost in 1998. The third match quickly ended on Monday at 5:30 pm."
)


def tags(text: str) -> dict[str, tuple[str, str]]:
    spans = words(text)
    (found,) = RuleTagger().tag([text], [spans])
    return {span.of(text): tag for span, tag in zip(spans, found, strict=True)}


def test_rules_on_a_sentence() -> None:
    found = tags(TEXT)
    expected = """
        Anna PROPN person|who PRON none|the DET none|University PROPN organisation|said VERB none|Paris PROPN place|
        3 NUM date|May PROPN date|2021 NUM date|1,250 NUM quantity|tonnes NOUN quantity|million NUM money|
        20 NUM percent|1998 NUM date|third ADJ ordinal|quickly ADV none|Monday PROPN date
    """
    rows = [row.split() for row in expected.split("|")]
    assert {word: found[word] for word, *_ in rows} == {word: (pos, entity) for word, pos, entity in rows}


@given(st.text(max_size=80) | st.lists(st.sampled_from(TEXT.split()), max_size=12).map(" ".join))
def test_any_text_has_one_tag_for_each_word(text: str) -> None:
    spans = words(text)
    (found,) = RuleTagger().tag([text], [spans])
    assert len(found) == len(spans)
    assert all(pos in PARTS_OF_SPEECH and entity in ENTITIES for pos, entity in found)


def test_tags_of_some_words_are_those_of_all() -> None:
    spans = words(TEXT)
    every = RuleTagger().tag([TEXT], [spans])[0]
    assert RuleTagger().tag([TEXT], [spans[:5]])[0] == every[:5]


@pytest.mark.parametrize("name", ["", "spacy", "spacy:", "nltk"])
def test_unknown_taggers(name: str) -> None:
    with pytest.raises(InputError, match="there is no tagger"):
        load_tagger(name)


def test_a_tagger_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"veridical-lab\[tagger\]"):
        load_tagger("spacy:en_core_web_sm").tag(["a"], [words("a")])


def test_a_pipeline_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    with pytest.raises(InputError, match="cannot be loaded"):
        SpacyTagger(str(tmp_path / "nothing")).identity()


def test_a_spacy_pipeline(tmp_path: Path) -> None:
    """A pipeline whose parts of speech and entities are rules: alignment, merging and names are ours to test."""
    spacy = pytest.importorskip("spacy")
    blank = spacy.blank("en")
    blank.to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="has no tagger"):
        SpacyTagger(str(tmp_path / "blank")).identity()
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("tagger")
    tagger.add_label("NN")
    nlp.initialize()
    rules = nlp.add_pipe("attribute_ruler")
    rules.add([[{"LOWER": "don"}], [{"LOWER": "do"}]], {"POS": "AUX"})
    rules.add([[{"LOWER": "sleep"}]], {"POS": "VERB"})
    names = nlp.add_pipe("entity_ruler")
    names.add_patterns([{"label": "GPE", "pattern": "Oslo"}, {"label": "THING", "pattern": "bridge"}])
    nlp.to_disk(tmp_path / "pipeline")
    found = load_tagger(f"spacy:{tmp_path / 'pipeline'}")
    text = "They don't sleep  in Oslo by a bridge"
    tagged = dict(zip((s.of(text) for s in words(text)), found.tag([text], [words(text)])[0], strict=True))
    assert tagged["don't"] == ("AUX", "none")
    assert tagged["sleep"] == ("VERB", "none")
    assert tagged["Oslo"][1] == "place"
    assert tagged["bridge"][1] == "other"
    assert found.identity().startswith("spacy:en_pipeline-")
