"""What counts as a copy of a source: a whole sentence or clause that the source itself states."""

from __future__ import annotations

import pytest

from veridical.detectors.default.copies import is_copied

SAID = "The drug cures migraine."


@pytest.mark.parametrize(
    "source",
    [
        "The drug cures migraine.",
        "It rained. THE DRUG cures  migraine! It is cheap.",
        "In most people, the drug cures migraine.",
        "The drug cures migraine, and it is cheap.",
        "The drug cures migraine; it is cheap.",
        "It is cheap, and the drug cures migraine.",
        "- The drug cures migraine\n- It is cheap",
        "What we know: the drug cures migraine.",
        "It is a myth that the drug cures migraine. Later it was shown: the drug cures migraine.",
        "The drug cures migraine. It is not true that it is dear.",
        "“The drug cures migraine,” and it is cheap.",
    ],
)
def test_a_whole_sentence_or_clause_is_a_copy(source: str) -> None:
    assert is_copied(SAID, source)


@pytest.mark.parametrize(
    "source",
    [
        "The drug cures migraine in mice.",
        "The drug cures migraine if taken early.",
        "It was hoped that the drug cures migraine.",
        "Nobody says the drug cures migraine.",
        "The old drug cures migraine pain.",
        "It is not true that the drug cures migraine.",
        "The maker denied that the drug cures migraine.",
        "The claim that the drug cures migraine is false.",
        "It is a myth: the drug cures migraine.",
        "Myths we hear:\n- The drug cures migraine.",
        "If the dose is high, the drug cures migraine.",
        "The drug cures migraine. This is false.",
        "The drug cures migraine. That claim has been refuted.",
        "The drug cures migraine, but that was denied by the maker.",
        "“The drug cures migraine,” the maker falsely claimed.",
        "Contrary to rumours, the drug cures migraine.",
        "The drug does not cure migraine.",
    ],
)
def test_a_part_of_a_sentence_or_what_is_denied_is_no_copy(source: str) -> None:
    assert not is_copied(SAID, source)


def test_for_coverage_the_words_alone_count() -> None:
    assert is_copied(SAID, "The drug cures migraine in mice.", whole=False)
    assert not is_copied(SAID, "The drug never cures migraine.", whole=False)
