"""What makes no claim: citation marks, numbers of list items, sentences around an answer, refusals and talk."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors.claims.claims import claim_sentences
from veridical.records.types import Source
from veridical.text.framing import framing_sentences, without_framing
from veridical.text.segment import sentences, words

LING = Source("a", "It is red.", citation="K. Ling et al., 2009")


def left(text: str) -> list[str]:
    return [span.of(text) for span in words(without_framing(text, [LING, Source("doc3", "It is old.")]))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It is red [1]. It is old [1, 2].", "It is red It is old"),
        ("It is red.[1] It is old.²", "It is red It is old"),
        ("It is red【1†source】 and [Source 1; Source 2] old (document 2).", "It is red and old"),
        ("It is red [doc3] (Ling et al., 2009).", "It is red"),
        ("Ling (2009) found it red (Benton, 2010).", "found it red Benton 2010"),
        ("As K. Ling et al., 2009, say, it is red.", "As say it is red"),
        ("1. It is red.\n2. It is old.", "It is red It is old"),
        ("Step 1: It is red.\n\n- (2) It is old.\n\n**3.** It is big.", "It is red It is old It is big"),
        ("Key finding 2: It is red.\na) It is old.", "It is red It is old"),
        (
            "1889. It was built.\n12.5 m is its width.\nArticle 5: no.",
            "1889 It was built 12.5 m is its width Article 5 no",
        ),
        ("It has 3 doors.\nDay 2: Rome", "It has 3 doors Day 2 Rome"),
        ("4.", "4"),
        (
            "Here are the flights:\n\n1. **Option 1:**\n   - **First Leg:**\n     - Departure: 04:00\n**Flight 2:** a",
            "Departure 04 00 a",
        ),
        ("- Room 12:\n  - It is big.\nDay 2: Rome", "Room 12 It is big Day 2 Rome"),
        ("Winners:\n- **Ann Berg:**\n  - gold", "Ann Berg gold"),
        (
            "It is red.\n\nPayment method: Please confirm the card. I will now search for May 24. I will pay 5.",
            "It is red I will pay 5",
        ),
        (
            "Please hold on for a moment. Would you prefer red, or both? Would you like to pay the $5?",
            "Would you like to pay the 5",
        ),
        ("Sure! Here is a short summary of the text:\nIt is red.\n\nI hope this helps!", "It is red"),
        ("## Key Takeaways\n\nIt is red.\n\nLet me know if you have questions.", "It is red"),
        ("Based on the provided context, here are the key points:\n- It is red.", "It is red"),
        ("Certainly.", "Certainly"),
        ("Of course. It is red.", "It is red"),
        ("Here is what Ann built in 1889: a bridge.", "Here is what Ann built in 1889 a bridge"),
        ("I hope that peace comes. The summary is short.", "I hope that peace comes The summary is short"),
        ("Answer: red", "red"),
        ("Where and when:\n- Here.\n\n**Size:**\n\nIt is big.\n\nRed:", "Here It is big Red"),
        ("The main facts about it are:\n- It is red.\nSize: big", "The main facts about it are It is red Size big"),
        ("It is red.[^1]\n\n[^1]: Ling 2009, page 4", "It is red"),
        (
            "Hi there! I'd be happy to help. As an AI language model, I see it is red. Have a nice day!",
            "I see it is red",
        ),
        (
            "**TL;DR:** It is red.\nFirst, it is old. <summary>Finally, it is big.</summary>",
            "It is red it is old Finally it is big",
        ),
        ("It is red.\n\n---\n\nSummary: it is old.", "It is red it is old"),
        ("Annika: it is red.\nFinally he left.", "Annika it is red Finally he left"),
        ("# The Tower\n\nIt is red.\n\n## Where it is\nIt is here.", "It is red It is here"),
        ("**It is red**\n\nIt is old.\n\n## It is big", "It is red It is old It is big"),
        ("# In 1889\n\n**Height:** 300 m", "In 1889 Height 300 m"),
        ("Yes, it is red. No: it is old. In summary, it is big.", "it is red it is old it is big"),
        ("The short answer is that it is red. Overall, it is old.", "it is red it is old"),
        ("No one came. Overall costs rose. Yes.", "No one came costs rose Yes"),
        (
            "According to the second source, it is red. Document 2 and Sources 1, 2 agree; Document 3 is red.",
            "According to the source it is red and agree Document 3 is red",
        ),
    ],
)
def test_what_is_left(text: str, wanted: str) -> None:
    assert left(text) == wanted.split()


def test_a_number_that_the_sources_give_their_own_documents_is_a_claim() -> None:
    sources = [Source("a", "Document 2 was signed in 1990."), Source("b", "It is red.")]
    assert without_framing("Document 1 was signed.", sources) == "Document 1 was signed."
    assert without_framing("Document 1 was signed.", sources[1:]) == "           was signed."


@given(st.text(alphabet="ab1. \n[](),:-*#【】†SureHrisnwo", max_size=80))
def test_words_stay_where_they_are(text: str) -> None:
    blanked = without_framing(text, [LING])
    assert len(blanked) == len(text)
    assert {(s.start, s.of(blanked)) for s in words(blanked)} <= {(s.start, s.of(text)) for s in words(text)}
    assert [i for i, c in enumerate(blanked) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]


def test_a_list_without_its_numbers_has_the_same_items() -> None:
    text = "1. It is red\n2. It is old\n3) It is big"
    blanked = without_framing(text, [LING])
    assert [(s.start, s.end) for s in sentences(blanked)] == [(s.start, s.end) for s in sentences(text)]


@pytest.mark.parametrize(
    "piece",
    [
        "[2] ",
        "(source 3) ",
        "[Source 1, Source 2, ",
        "- ",
        " ",
        "(",
        "Let me know. ",
        "1. ",
        "Yes, ",
        "# ",
        "Source 1, ",
    ],
)
def test_the_time_is_linear(piece: str) -> None:
    def seconds(times: int) -> float:
        start = time.process_time()
        without_framing("It is. " + piece * times + "[1", [LING])
        return time.process_time() - start

    short, long = min(seconds(4000) for _ in range(3)), seconds(64_000)
    assert long < 16 * short * 8 + 0.5


NO_CLAIM = """
I don't know.
I do not know the answer to that question.
Unknown
N/A
n/a
Not specified.
Not mentioned in the text.
I'm sorry, but I can't help with that.
I'm not sure.
Sorry, I am unable to answer this question based on the given documents.
Unfortunately, I can't find that information in the provided context.
I cannot answer this from the sources.
I do not have enough information to answer your question.
There is no information about this.
The context does not contain this.
The document doesn't say.
The answer is not provided in the text.
It is not stated.
That is unclear.
No information available.
Insufficient information.
Hello! How can I help you today?
Hi there, how can I assist you?
Good morning! Could you please share more details?
You're welcome! Happy to help.
Thank you for reaching out. Have a nice day!
I'm sorry for the confusion.
My apologies for any inconvenience.
As an AI language model, I don't have personal opinions.
Let me check that for you.
Got it.
"""
CLAIM = """
Yes.
No.
None.
Both.
In 1950.
I don't know Ann.
He does not know.
It is unknown whether Ann left.
The tower does not have a roof.
It is not available in Spain.
It does not include breakfast.
I don't have a car.
Thanks to Ann, it was built.
Sorry is a song by Ann.
Good morning is what he said in 1990.
Welcome speeches were held in Rome.
The policy does not mention tents.
The text does not say when it was built.
"""


@pytest.mark.parametrize("text", NO_CLAIM.strip().split("\n"))
def test_refusals_courtesy_and_talk_make_no_claim(text: str) -> None:
    assert left(text) == []
    assert claim_sentences(text) == []


@pytest.mark.parametrize("text", CLAIM.strip().split("\n"))
def test_what_looks_like_talk_is_a_claim(text: str) -> None:
    assert left(text) == [span.of(text) for span in words(text)]
    assert claim_sentences(text)


def test_refusals_stay_where_they_claim_something() -> None:
    text = "Hello! I don't know."
    assert without_framing(text, [LING], with_refusals=True).strip() == "I don't know."


def test_sentences_around_an_answer_are_no_claims() -> None:
    text = "Here is the summary:\n\nIt is red.\n\nWould you like me to go on?"
    assert [span.of(text) for span in claim_sentences(text)] == ["It is red."]
    spans = sentences("It is red. It is old.")
    assert framing_sentences("It is red. It is old.", spans) == []
