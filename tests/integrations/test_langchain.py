"""The LangChain adapter in real chains; needs langchain-core."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core")
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough

from veridical import Outcome
from veridical.integrations.langchain import GroundednessCallback, NotGroundedError, groundedness_check

pytestmark = pytest.mark.filterwarnings("ignore")  # what a framework deprecates of its own


class Shelf(BaseRetriever):
    """Finds every text that shares a word with the question."""

    texts: list[str]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        words = set(query.lower().split())
        return [Document(text) for text in self.texts if words & set(text.lower().split())]


PROMPT = PromptTemplate.from_template("{context}\n{question}")
SHELF = Shelf(texts=["The tower is red.", "The bridge is blue."])


def chain_of(model: Any) -> Runnable[Any, Any]:
    found = RunnableParallel(
        context=SHELF | (lambda docs: "\n".join(d.page_content for d in docs)), question=RunnablePassthrough()
    )
    return found | PROMPT | model


@pytest.mark.parametrize("model", [FakeListChatModel, FakeListLLM])
def test_replies_are_checked_against_what_was_retrieved(model: Any) -> None:
    seen: list[Any] = []
    callback = GroundednessCallback(detector="overlap", on_result=seen.append)
    chain = chain_of(model(responses=["The tower is red.", "The tower is purple."]))
    for question in ("which tower", "what tower"):
        chain.invoke(question, config={"callbacks": [callback]})
    assert [checked.outcome for checked in callback.results] == [Outcome.CLEAR, Outcome.FLAGGED]
    assert callback.results == seen
    assert [source.text for source in callback.results[1].case.sources] == ["The tower is red."]
    assert not callback._runs, "nothing of a call is held after it"


def test_calls_at_once_keep_their_sources_apart() -> None:
    def say(prompt: Any) -> str:
        return "The tower is red." if "tower" in prompt.to_string() else "The bridge is blue."

    callback = GroundednessCallback(detector="overlap")
    answers = {
        "tower": FakeListLLM(responses=["The tower is red."]),
        "bridge": FakeListLLM(responses=["The bridge is blue."]),
    }
    pick = RunnableLambda(lambda prompt: answers["tower" if "tower" in say(prompt) else "bridge"])
    chain_of(pick).batch(["tower", "bridge"] * 4, config={"callbacks": [callback], "max_concurrency": 4})
    assert [checked.outcome for checked in callback.results] == [Outcome.CLEAR] * 8


async def _ainvoke(chain: Any, callback: GroundednessCallback, question: str = "tower") -> None:
    await chain.ainvoke(question, config={"callbacks": [callback]})


def test_asynchronous_chains() -> None:
    import asyncio

    callback = GroundednessCallback(detector="overlap")
    asyncio.run(_ainvoke(chain_of(FakeListLLM(responses=["The tower is purple."])), callback))
    assert [checked.outcome for checked in callback.results] == [Outcome.FLAGGED]


def test_what_is_said_before_anything_was_retrieved_is_not_checked() -> None:
    callback = GroundednessCallback(detector="overlap")
    rewrite = PromptTemplate.from_template("{question}") | FakeListLLM(responses=["tower"])
    chain = rewrite | chain_of(FakeListLLM(responses=["The tower is red."]))
    chain.invoke({"question": "the tall thing"}, config={"callbacks": [callback]})
    assert [checked.case.response for checked in callback.results] == ["The tower is red."]


def test_strict_raises_out_of_the_chain_and_forgets_the_call() -> None:
    callback = GroundednessCallback(detector="overlap", strict=True)
    chain = chain_of(FakeListChatModel(responses=["The tower is purple."]))
    with pytest.raises(NotGroundedError, match="“purple” is not backed by the sources") as raised:
        chain.invoke("tower", config={"callbacks": [callback]})
    assert raised.value.checked.outcome is Outcome.FLAGGED
    assert not callback._runs


def test_strict_raises_where_nothing_could_be_judged() -> None:
    import asyncio

    tower = FakeListChatModel(responses=["The tower is red."])
    for chain, question, reason in (
        (chain_of(tower), "castle", "there are no sources"),
        (PROMPT.partial(context="") | tower, "tower", "there are no sources"),
        (tower, "tower", "there are no sources"),
        (chain_of(FakeListChatModel(responses=[""])), "tower", "the response is empty"),
    ):
        callback = GroundednessCallback(detector="overlap", strict=True)
        with pytest.raises(NotGroundedError, match=reason):
            chain.invoke(question, config={"callbacks": [callback]})
        with pytest.raises(NotGroundedError, match=reason):
            asyncio.run(_ainvoke(chain, callback, question))
        assert [checked.outcome for checked in callback.results] == [Outcome.UNJUDGED] * 2
        assert not callback._runs


def test_a_call_of_a_tool_is_no_empty_reply_unless_it_is_the_last() -> None:
    tool_call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    calls_tool = GenericFakeChatModel(messages=iter([tool_call] * 2))
    answers = FakeListChatModel(responses=["The tower is red."])
    found = RunnableLambda(lambda question: SHELF.invoke(question) and question)
    callback = GroundednessCallback(detector="overlap", strict=True)
    (found | calls_tool | (lambda reply: "tower") | answers).invoke("tower", config={"callbacks": [callback]})
    assert [checked.outcome for checked in callback.results] == [Outcome.CLEAR]
    with pytest.raises(NotGroundedError, match="the response is empty"):
        (found | calls_tool).invoke("tower", config={"callbacks": [callback]})


def test_one_text_is_one_source_and_documents_keep_their_names() -> None:
    check = groundedness_check(detector="overlap")
    (source,) = check.invoke({"answer": "It is red.", "context": "It is red."})["check"].case.sources
    assert (source.id, source.text) == ("1", "It is red.")
    context = [Document("a", id="x"), Document("b", metadata={"source": "b.pdf"}), "c", Document("d", id="x")]
    sources = check.invoke({"answer": "It is red.", "context": context})["check"].case.sources
    assert [(source.id, source.text) for source in sources] == [("x", "a"), ("b.pdf", "b"), ("3", "c"), ("x (2)", "d")]


@pytest.mark.parametrize("answer", ["The tower is purple.", AIMessage("The tower is purple.")])
def test_a_runnable_adds_the_check(answer: Any) -> None:
    check = groundedness_check(detector="overlap")
    output = check.invoke({"answer": answer, "context": [Document("The tower is red."), "It is tall."], "more": 1})
    assert output["check"].outcome is Outcome.FLAGGED
    assert (output["answer"], output["more"]) == (answer, 1)
    assert len(output["check"].case.sources) == 2
