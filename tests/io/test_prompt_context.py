"""The context in prompts: the default ones of LangChain, LlamaIndex, Haystack and Open WebUI, and others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.io.prompt_context import context_of, read_marker
from veridical.records.errors import InputError

QUESTION = "Does it rain?"
# documents may hold the words that end a context
DOCUMENT = "It rains.\n\nQuestion: open\n------------\n---------------------\nIt is wet."
THIN, THICK = "-" * 12, "-" * 21
ASKED = f"Question: {QUESTION}\n"
PROMPTS = {
    "LangChain, stuffed": "Use the following pieces of context to answer the question at the end. If you don't know, "
    f"say so.\n\n{{}}\n\n{ASKED}Helpful Answer:",
    "LangChain, chat": "Use the following pieces of context to answer the user's question.\nIf you don't know the "
    "answer, say so.\n----------------\n{}",
    "LangChain, hub": "You are an assistant. Use the following pieces of retrieved context to answer the question. Be "
    f"concise.\n{ASKED.strip()} \nContext: {{}} \nAnswer:",
    "LangChain, tutorial": "Use the following pieces of retrieved context to answer the question. Be concise.\n\n{}",
    "LangChain, middleware": "You are a helpful assistant. Use the following context in your response:\n\n{}",
    "LangChain, refined": f"Context information is below. \n{THIN}\n{{}}\n{THIN}\nGiven the context, answer.",
    "LlamaIndex": f"Context information is below.\n{THICK}\n{{}}\n{THICK}\nGiven the context information, answer the "
    f"query.\nQuery: {QUESTION}\nAnswer: ",
    "LlamaIndex, tree": f"Context information from multiple sources is below.\n{THICK}\n{{}}\n{THICK}\nGiven the "
    f"information from multiple sources, answer the query.\nQuery: {QUESTION}\nAnswer: ",
    "LlamaIndex, refined": f"Refine the answer with some more context below.\n{THIN}\n{{}}\n{THIN}\nGiven the new "
    "context, refine it.",
    "LlamaIndex, context": f"Use the context information below to assist the user.\n{'-' * 20}\n{{}}\n{'-' * 20}\n",
    "LlamaIndex, condensed": "\n  Here are the relevant documents for the context:\n\n  {}\n\n  Instruction: "
    "Based on the above documents, answer.\n",
    "Haystack": f"\n  Given these documents, answer the question.\n  Documents:\n  {{}}\n  {ASKED}  Answer:\n",
    "Haystack, context": f"Given the following information, answer the question.\n\nContext:\n{{}}\n\n{ASKED}Answer:",
    "Haystack, according": f"\n  According to the following documents:\n  {{}}\n  Answer the given question: {QUESTION}"
    "\n  Answer:\n",
    "Open WebUI": f'Cite a <source> tag (e.g., <source id="1">).\n\n<context>\n{{}}\n</context>\n\n{QUESTION}',
    "Open WebUI, tags": f"<context>\n{{}}\n</context>\n\n<user_query>\n{QUESTION}\n</user_query>",
}
WITHOUT_QUESTION = {name for name, prompt in PROMPTS.items() if QUESTION not in prompt}


@pytest.mark.parametrize("name", PROMPTS)
def test_known_prompts(name: str) -> None:
    context = context_of(PROMPTS[name].format(DOCUMENT))
    assert context is not None
    assert context.passages == [DOCUMENT]
    assert context.question == (None if name in WITHOUT_QUESTION else QUESTION)


def test_elements_are_sources_of_their_own() -> None:
    elements = '<source id="1" name="a.txt">It <b>rains</b>.</source>\n<source id="2">It is wet.</source>'
    context = context_of(PROMPTS["Open WebUI"].format(elements))
    assert context is not None
    assert context.passages == ["It <b>rains</b>.", "It is wet."]


@pytest.mark.parametrize(
    "message",
    [
        "",
        "You are a helpful assistant.",
        "Answer from what stands in <context> tags.",
        "<context>\n</context>",
        "Context information is below.\nIt rains.",
        "Question: does it rain?\nAnswer:",
        "Given these documents, answer the question.\nDocuments:\nIt rains.",
    ],
)
def test_anything_else_has_no_context(message: str) -> None:
    assert context_of(message) is None


def test_markers_of_ones_own() -> None:
    (open_ended, closed) = (read_marker("Facts:"), read_marker("[[...]]"))
    for marker, message in ((open_ended, "Facts: It rains."), (closed, "[[ It rains. ]] Does it?")):
        context = context_of(message, [marker])
        assert context is not None
        assert context.passages == ["It rains."]
    assert context_of("[[ It rains.", [closed]) is None
    with pytest.raises(InputError, match="no beginning"):
        read_marker("...Question:")


@given(st.text(), st.sampled_from(sorted(PROMPTS)))
def test_any_document_is_found_whole(document: str, name: str) -> None:
    context = context_of(PROMPTS[name].format(f"A. {document} B."))
    assert context is not None
    if "<source" not in document:
        assert context.passages == [f"A. {document} B."]
