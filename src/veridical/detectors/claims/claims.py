"""Split a response into claims with their spans, either by sentence or by asking a model for a list.

Both ways follow George and Stuhlmüller 2023 (§3.2 for sentences, §2.2 with A.1.1 for a model's list). Each claim in a
list is located in the response: first verbatim, then approximately, and finally as the sentence that shares the most
words with it. Sentences without a claim are reported as unchecked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Request
from veridical.llm.reply_parser import listed
from veridical.records.judging import NO_CLAIM
from veridical.records.spans import Span
from veridical.records.types import Case, Claim, Usage
from veridical.text.citations import statements, tagged_marks
from veridical.text.framing import without_framing
from veridical.text.markup import blanked, without_markup
from veridical.text.quotes import find_quote
from veridical.text.segment import has_words, words
from veridical.text.stopwords import STOP_WORDS

MIN_SIMILARITY = 0.8
"""A listed claim and its span must be at least this similar. A claim may drop or replace a few words of a sentence."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one response.

    Attributes:
        claims: The claims, in the order of the response.
        unchecked: The sentences of the response that no claim covers.
        notes: Notes for the judgement, such as that the model's list could not be parsed.
        usage: The model calls and tokens that splitting took. None without a model.
    """

    claims: tuple[Claim, ...]
    unchecked: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage | None = None


def sentence_claims(text: str, *, cited: bool = False) -> Claims:
    """Split a text into claims: each sentence that makes a claim (`claim_sentences`) becomes one.

    The text of a claim is verbatim, except that spaces replace markup. If `cited` is set, a sentence that consists only
    of a citation becomes a claim, too, and a footnote mark is part of the sentence before it.
    """
    plain = without_markup(blanked(text, tagged_marks(text)))
    return Claims(tuple(Claim(span.of(plain), (span,)) for span in claim_sentences(text, cited=cited)))


def claim_sentences(text: str, *, cited: bool = False) -> list[Span]:
    """Find the sentences of a response that make a claim, without greetings and other framing (`text.framing`).

    Markup around the sentences is not part of their spans. If `cited` is set, sentences that consist only of a citation
    are returned, too, and a footnote mark is part of the sentence before it.
    """
    claimed = without_framing(text, (), with_citations=cited)
    return [span for span in statements(without_markup(text), cited=cited) if has_words(span.of(claimed))]


def split_by_model(model: ChatModel, cases: Sequence[Case], *, cited: bool = False) -> list[Claims]:
    """Ask a chat model to list the claims of each case, and find their spans in the response.

    If its reply cannot be parsed, the sentences of the response become the claims, and a note says so. If `cited` is
    set, sentences that consist only of a citation count as sentences that make a claim (`claim_sentences`).
    """
    split_claims = prompt("split_claims")
    requests = [
        Request(
            (Message("user", fill(split_claims, response=case.response)),),
            max_tokens=2048,
            stage="split",
            prompt=split_claims.hash,
        )
        for case in cases
    ]
    replies = model.chat(requests) if requests else []
    splits = []
    for case, reply in zip(cases, replies, strict=True):
        if isinstance(reply, Failure):
            problem = reply.reason
        elif reply.finish == "length":
            problem = "the list was cut short"
        else:
            items = [item for item in listed(reply.text) if has_words(item)]
            aligned = align_claims(case.response, items, claim_sentences(case.response, cited=cited))
            if aligned.claims:
                splits.append(replace(aligned, usage=reply.usage))
                continue
            problem = "no claim of its list is about the response" if items else "the reply is not a list"
        note = f"not split into claims ({problem}): each sentence is one"
        splits.append(replace(sentence_claims(case.response, cited=cited), notes=(note,), usage=reply.usage))
    return splits


def nothing_to_check(case: Case) -> str | None:
    """Return the reason why no claim of the case can be checked, or None if at least one can be checked.

    For example, the response makes no claim, or there are no sources.
    """
    if not claim_sentences(case.response):
        return NO_CLAIM if has_words(case.response) else "the response has no words"
    if not case.sources:
        return "no sources to check against"
    return None if any(has_words(source.text) for source in case.sources) else "the sources hold no text"


def align_claims(text: str, claims: Sequence[str], sentences: Sequence[Span]) -> Claims:
    """Find the span of each claim in the response.

    A claim that is worded differently from the response gets the span of the sentence that shares the most words with
    it. A claim that shares no content word with any sentence is skipped. Notes say how many claims were worded
    differently or skipped.

    Args:
        text: The response.
        claims: The claims, in the order of the response.
        sentences: The sentences of the response that make a claim (`claim_sentences`).
    """
    sentence_words = [_content_words(span.of(text)) for span in sentences]
    aligned: list[Claim] = []
    used: list[Span] = []
    approximate = unmatched = current = 0
    for claim in claims:
        span = find_quote(text, claim, used=used, min_similarity=MIN_SIMILARITY)
        if span is None and used:  # two claims may come from the same words
            span = find_quote(text, claim, min_similarity=MIN_SIMILARITY)
        if span is None:
            shared = [len(_content_words(claim) & others) for others in sentence_words]
            best = max(shared, default=0)
            if not best:
                unmatched += 1
                continue
            # if several sentences share as many words, take the next one: claims are in the order of the text
            ties = [i for i, n in enumerate(shared) if n == best]
            current = next((i for i in ties if i >= current), ties[0])
            span = sentences[current]
            approximate += 1
        else:
            used.append(span)
            current = next((i for i, s in enumerate(sentences) if s.overlaps(span)), current)
        aligned.append(Claim(claim, (span,)))
    unchecked = tuple(s for s in sentences if not any(s.overlaps(c.spans[0]) for c in aligned))
    notes = []
    if approximate:
        notes.append(f"{approximate} claims are worded unlike the response: each is marked on its sentence")
    if unmatched:
        notes.append(f"{unmatched} listed claims share no word with the response and were left out")
    if unchecked:
        notes.append(f"{len(unchecked)} sentences gave no claim and were not checked")
    return Claims(tuple(aligned), unchecked, tuple(notes))


def _content_words(text: str) -> set[str]:
    forms = {span.of(text).casefold() for span in words(text)}
    return forms - STOP_WORDS or forms
