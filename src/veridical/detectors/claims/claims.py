"""The claims of a response and where it makes them: its sentences (C §3.2), or what a model lists (C §2.2, A.1.1).

A listed claim is found verbatim, then tolerantly, else it stays on the sentence whose words it
shares. What no claim speaks of was not checked, and is said to be left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veridical.core.quotes import find_quote
from veridical.core.segment import has_words, words
from veridical.core.spans import Span
from veridical.core.stopwords import STOP_WORDS
from veridical.core.types import Case, Claim, Usage
from veridical.detectors.claims.citations import statements
from veridical.llm.prompts import fill, prompt
from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request
from veridical.llm.reply_parser import listed

__all__ = ["MIN_SIMILARITY", "Claims", "place", "sentence_claims", "split_by_model"]

MIN_SIMILARITY = 0.8
"""How alike a listed claim and its place must be: a claim may drop or exchange a few words of its sentence."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one response, in order; `left` are its statements that no claim speaks of."""

    claims: tuple[Claim, ...]
    left: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage | None = None


def sentence_claims(text: str, *, cited: bool = False) -> Claims:
    """Each sentence as a claim, exactly as it stands there."""
    return Claims(tuple(Claim(span.of(text), (span,)) for span in statements(text, cited=cited)))


def split_by_model(
    model: ChatModel, cases: Sequence[Case], *, cited: bool = False, max_tokens: int = 2048
) -> list[Claims]:
    """The claims that `model` lists for each case; where its reply cannot be read, the sentences, with a note."""
    asked = prompt("split_claims")
    requests = [
        Request(
            (Message("user", fill(asked, response=case.response)),),
            max_tokens=max_tokens,
            stage="split",
            prompt=asked.hash,
        )
        for case in cases
    ]
    replies = model.chat(requests) if requests else []
    return [_split(case.response, reply, cited) for case, reply in zip(cases, replies, strict=True)]


def _split(text: str, reply: Reply | Failure, cited: bool) -> Claims:
    why, texts = _listed(reply)
    if texts:
        placed = place(text, texts, statements(text, cited=cited))
        if placed.claims:
            return Claims(placed.claims, placed.left, placed.notes, reply.usage)
        why = "no claim of its list is about the response"
    whole = sentence_claims(text, cited=cited)
    return Claims(whole.claims, (), (f"not split into claims ({why}): each sentence is one",), reply.usage)


def _listed(reply: Reply | Failure) -> tuple[str, list[str]]:
    if isinstance(reply, Failure):
        return reply.reason, []
    if reply.finish == "length":
        return "the list was cut short", []
    return "the reply is no list", [item for item in listed(reply.text) if has_words(item)]


def place(text: str, texts: Sequence[str], sentences: Sequence[Span]) -> Claims:
    """The claims `texts` on the characters of `text`, whose statements are `sentences`.

    A claim that shares no content word with any sentence is not of this response and is left out, with a note.
    """
    forms = [_content(span.of(text)) for span in sentences]
    claims: list[Claim] = []
    used: list[Span] = []
    astray: list[str] = []
    loose = at = 0
    for wanted in texts:
        span = _find(text, wanted, used)
        if span is None:
            shared = [len(_content(wanted) & form) for form in forms]
            best = max(shared, default=0)
            if not best:
                astray.append(wanted)
                continue
            # of sentences that share as much, the next one: claims come in the order of the text
            ties = [i for i, n in enumerate(shared) if n == best]
            at = next((i for i in ties if i >= at), ties[0])
            span = sentences[at]
            loose += 1
        else:
            used.append(span)
            at = next((i for i, s in enumerate(sentences) if s.overlaps(span)), at)
        claims.append(Claim(wanted, (span,)))
    left = tuple(s for s in sentences if not any(s.overlaps(c.spans[0]) for c in claims))
    return Claims(tuple(claims), left, _notes(loose, astray, len(left)))


def _notes(loose: int, astray: Sequence[str], left: int) -> tuple[str, ...]:
    notes = []
    if loose:
        notes.append(f"{loose} claims are worded unlike the response: each is marked on its sentence")
    if astray:
        notes.append(f"{len(astray)} listed claims share no word with the response and were left out")
    if left:
        notes.append(f"{left} sentences gave no claim and were not checked")
    return tuple(notes)


def _find(text: str, wanted: str, used: Sequence[Span]) -> Span | None:
    """The first unused place, else any: two claims may rest on the same words."""
    for taken in (used, ()) if used else ((),):
        span = find_quote(text, wanted, used=taken, min_similarity=MIN_SIMILARITY)
        if span is not None:
            return span
    return None


def _content(text: str) -> set[str]:
    found = {span.of(text).casefold() for span in words(text)}
    return found - STOP_WORDS or found
