"""Conversations: every form of messages gives the same cases, with the same evidence."""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import veridical
from veridical.io.conversations import coming_turn, read_conversation
from veridical.io.rows import RowForm, RowReader, read_cases
from veridical.io.serialization import decode_case, decode_cases
from veridical.records.errors import DataError, InputError, WireError
from veridical.records.types import Case, Source
from veridical.report.locations import locate_cases
from veridical.server.requests import read_cases_of
from veridical.server.settings import Limits

SYSTEM = "Be brief. <context>Shops close at 9.</context>"
ASKED, RESULT, SAID = "I have 2 dogs. May they come in?", '{"pets": "dogs only"}', "Yes, both."


class Role(Enum):
    USER = "user"


def _object(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**fields)


CALL = {"id": "c1", "type": "function", "function": {"name": "get_rules", "arguments": "{}"}}
CALL_OBJECT = _object(id="c1", function=_object(name="get_rules", arguments="{}"))
LANGCHAIN_CALL = {"name": "get_rules", "args": {}, "id": "c1"}
OPENAI = [
    {"role": "developer", "content": SYSTEM},
    {"role": "user", "content": [{"type": "text", "text": ASKED}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": RESULT},
    {"role": "assistant", "content": SAID},
]
FORMS: dict[str, list[Any]] = {
    "openai": OPENAI,
    "openai objects": [
        *OPENAI[:2],
        _object(role="assistant", content=None, tool_calls=[CALL_OBJECT]),
        *OPENAI[3:],
    ],
    "openai responses": [
        {"role": "system", "content": [{"type": "input_text", "text": SYSTEM}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]},
        {"type": "function_call", "call_id": "c1", "name": "get_rules", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": RESULT},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]},
    ],
    "anthropic": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": ASKED},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me look."},
                {"type": "tool_use", "id": "c1", "name": "get_rules", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": RESULT}]}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": SAID}]},
    ],
    "langchain": [
        _object(type="system", content=SYSTEM),
        _object(type="human", content=ASKED),
        _object(type="ai", content="", tool_calls=[LANGCHAIN_CALL]),
        _object(type="tool", content=RESULT, tool_call_id="c1", name=None),
        _object(type="ai", content=SAID, tool_calls=[]),
    ],
    "langchain to_dict": [
        {"type": "system", "data": {"content": SYSTEM}},
        {"type": "human", "data": {"content": ASKED}},
        {"type": "ai", "data": {"content": "", "tool_calls": [LANGCHAIN_CALL]}},
        {"type": "tool", "data": {"content": RESULT, "tool_call_id": "c1"}},
        {"type": "ai", "data": {"content": SAID}},
    ],
    "langchain dumps": [
        {"lc": 1, "type": "constructor", "id": ["langchain", name], "kwargs": fields}
        for name, fields in (
            ("SystemMessage", {"content": SYSTEM}),
            ("HumanMessage", {"content": ASKED}),
            ("AIMessage", {"content": "", "tool_calls": [LANGCHAIN_CALL]}),
            ("ToolMessage", {"content": RESULT, "tool_call_id": "c1"}),
            ("AIMessage", {"content": SAID}),
        )
    ],
    "llamaindex": [
        {"role": "system", "blocks": [{"block_type": "text", "text": SYSTEM}], "additional_kwargs": {}},
        _object(role=Role.USER, blocks=[_object(block_type="text", text=ASKED)], additional_kwargs={}),
        {"role": "assistant", "blocks": [], "additional_kwargs": {"tool_calls": [CALL]}},
        {
            "role": "tool",
            "blocks": [{"block_type": "text", "text": RESULT}],
            "additional_kwargs": {"tool_call_id": "c1", "name": "get_rules"},
        },
        {"role": "assistant", "blocks": [{"block_type": "text", "text": SAID}]},
    ],
    "ai sdk": [
        {"role": "system", "parts": [{"type": "text", "text": SYSTEM}]},
        {"role": "user", "parts": [{"type": "text", "text": ASKED}, {"type": "file", "url": "data:,"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "get_rules"}]},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "get_rules",
                    "output": {"type": "text", "value": RESULT},
                }
            ],
        },
        {"role": "assistant", "parts": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": SAID}]},
    ],
    "gemini": [
        {"role": "system", "parts": [{"text": SYSTEM}]},
        {"role": "user", "parts": [{"text": ASKED}, {"inlineData": {"mimeType": "image/png", "data": ""}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "get_rules", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get_rules", "response": {"result": RESULT}}}]},
        {"role": "model", "parts": [{"text": "Let me see.", "thought": True}, {"text": SAID}]},
    ],
}


def named(case: Case) -> list[tuple[str, str]]:
    return [(source.id, source.text) for source in case.sources]


def texts(case: Case) -> list[str]:
    return [source.text for source in case.sources]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_case(form: str) -> None:
    (case,) = read_conversation(FORMS[form], system="context")
    assert (case.response, case.question) == (SAID, ASKED)
    assert named(case) == [
        ("system, message 1", "Shops close at 9."),
        ("user, message 2", "I have 2 dogs."),  # the question states nothing
        ("get_rules, message 4", RESULT),
    ]
    assert [(turn.speaker, turn.text) for turn in case.history] == [("system", SYSTEM), ("user", ASKED)]


def test_evidence_is_what_was_there_before_the_turn() -> None:
    chat = [("user", "It is my first visit."), ("assistant", "Welcome."), ("tool", "open: 9"), ("assistant", "From 9.")]
    first, second = read_conversation(chat, id="c", sources=[Source("p", "A passage.")])
    assert texts(first) == ["A passage.", "It is my first visit."]
    assert texts(second) == ["A passage.", "It is my first visit.", "open: 9"]
    assert (first.id, second.id) == ("c message 2", "c message 4")
    assert read_conversation(chat, only_last=True)[0].response == "From 9."
    *_, with_own = read_conversation(chat, assistant=True)
    assert "Welcome." in texts(with_own)


def test_tags_may_repeat_or_stay_open_and_names_are_unique() -> None:
    system = "<context>A <b>bold</b> <context>one.</context> No. <Context id='2'>\nTwo.\n</context> <context>open"
    (case,) = read_conversation([("system", system), ("assistant", "Yes.")], system="context")
    assert named(case) == [
        ("system, message 1", "A <b>bold</b> <context>one."),
        ("system, message 1 (2)", "Two."),
    ]


def test_requests_state_nothing() -> None:
    said = "Hello! Tell me a joke. I have a cat. And please write a poem about it. Finding it took long. Find it."
    (case,) = read_conversation([("user", said), ("assistant", "You have a cat.")])
    assert texts(case) == ["I have a cat.\nFinding it took long."]


@pytest.mark.parametrize(
    "sentence",
    [
        "can i get a refund within 60 days",
        "so can i get a refund within 60 days",
        "Wie hoch? 🗼",
        "Is it open on Sundays?) :-)",
        "is the tower 300 m tall",
        "so the tower is 300 m tall, right",
        "the tower is 300 m tall, isn't it",
        "ok, and is breakfast included",
        "are dogs allowed on weekdays",
        "do children under 12 pay 5 euros",
        "does parking cost 5 euros",
        "did it open in 1889",
        "did prices rise by 5 percent in 2020",
        "was the tower built in 1887",
        "was Tesla founded in 2003",
        "isn't the museum free before 12",
        "have you got a table for 4",
        "has my order been shipped on 5 May",
        "will the shop be open on 1 May",
        "may I bring 2 dogs",
        "may we come at 9",
        "should I take 40 mg",
        "would a visa cost 60 euros",
        "what year did it open, 1887 or so",
        "what's the height of the tower",
        "when does it close on Sundays",
        "where can I park for 2 hours",
        "where's the office",
        "who built the tower in 1887",
        "whose tower is 300 m tall",
        "which tower is 300 m tall",
        "why is it closed on Mondays",
        "how tall is the tower",
        "in what year was the tower built, 1887",
        "I wonder if refunds are possible within 60 days",
        "i want to know whether it opens at 9",
        "any chance to get a refund after 60 days",
        "could you confirm the tower is 300 m tall",
    ],
)
def test_a_question_states_nothing_without_its_mark(sentence: str) -> None:
    (case,) = read_conversation([("user", f"I have 2 dogs.\n\n{sentence}"), ("assistant", "Yes.")])
    assert texts(case) == ["I have 2 dogs."]


@pytest.mark.parametrize(
    "sentence",
    [
        "When I moved here in 2019, I paid 40 euros.",
        "When the shop closed in 2019, I lost 40 euros.",
        "Where I live, dogs are free.",
        "Where is unimportant, my address is 5 High Street.",
        "What I paid was 40 euros.",
        "What bothers me is that I paid 40 euros.",
        "What matters is that my dog is 2 years old.",
        "What is more, I paid 40 euros.",
        "How I got here: by bus 40.",
        "Why I came: my order of 5 May is late.",
        "Which is why I paid 40 euros.",
        "Which was 40 euros more than I expected.",
        "Who I met there was Ann.",
        "Will is my brother.",
        "Will Smith is my doctor.",
        "Will said that it costs 40 euros.",
        "May is my daughter, she is 12.",
        "May 5 is my birthday.",
        "May the 5th is my birthday.",
        "Should you need it, my number is 123.",
        "Had I known, I would have paid 40 euros.",
        "Were it cheaper, I would buy 2.",
        "Have a dog of 2 years.",
        "Had the surgery in 2019.",
        "Had it repaired in May.",
        "Have been a member since 2019.",
        "Was told that it costs 40 euros.",
        "Was a teacher for 20 years.",
        "Could not log in since 5 May.",
        "Is not working since 5 May.",
        "Would like a table for 4.",
        "Would always pay 40 euros.",
        "Should be 40 euros.",
        "I paid 40 euros, that is right.",
        "I asked whether it is open and they said until 9.",
        "So we are 4 people.",
        "Whatever I do, it fails after 5 minutes.",
        "Isabel is 12.",
        "Doing sports cost me 40 euros.",
        "Whenever I call, I wait 20 minutes.",
        "My dog, who is 2, is ill.",
        "In which case I paid 40 euros.",
    ],
)
def test_a_statement_that_begins_like_a_question_is_evidence(sentence: str) -> None:
    (case,) = read_conversation([("user", sentence), ("assistant", "Yes.")])
    assert texts(case) == [sentence]


def test_the_context_of_a_prompt_is_evidence() -> None:
    prompt = (
        "Given these documents, answer the question.\nDocuments:\nIt rains.\nQuestion: I am in Rome. Does it?\nAnswer:"
    )
    (case,) = read_conversation([("user", prompt), ("assistant", "Yes.")])
    assert texts(case) == ["It rains.", "I am in Rome."]
    assert case.question == "I am in Rome. Does it?"
    (case,) = read_conversation([("system", prompt), ("assistant", "Yes.")])
    assert (case.sources, case.question) == ((), None)
    (case,) = read_conversation([("system", prompt), ("assistant", "Yes.")], system="context")
    assert texts(case) == ["It rains."]
    assert case.question == "I am in Rome. Does it?"
    tags = "<context>\nA.\n</context>\nBe brief.\n<context>\nB.\n</context>"
    (case,) = read_conversation([("system", tags), ("assistant", "Yes.")], system="context")
    assert texts(case) == ["A.", "B."]


def test_the_coming_turn_has_what_the_next_turn_would_have() -> None:
    chat = [*OPENAI, ("user", "And cats?")]
    *_, case = read_conversation([*chat, ("assistant", "No.")], id="c", system="context")
    coming = coming_turn(chat, id="c message 7")
    assert coming == replace(case, response="")
    with pytest.raises(InputError, match="message 1: the role is 'docs'"):
        coming_turn([("docs", "It is red.")])
    assert coming_turn([], id="c").sources == ()


def test_an_elliptical_question_has_the_one_before() -> None:
    asked, again = "What is a ticket?", "And for children?"
    chat = [("user", asked), ("assistant", "12 euros."), ("user", again), ("assistant", "5.")]
    assert [case.question for case in read_conversation(chat)] == [asked, f"{asked} {again}"]
    chat[2] = ("user", "Please tell me when the museum of modern art opens on Sundays")
    assert read_conversation(chat)[-1].question == chat[2][1]


def test_messages_carry_sources_and_documents() -> None:
    document = {"type": "document", "title": "Rules", "source": {"type": "text", "data": "No cats."}}
    part = {"type": "text", "text": "A"}
    found = {"type": "search_result", "title": "Site", "source": "https://x", "content": [part]}
    chat = [
        {"role": "user", "content": [document, found, {"type": "text", "text": "May I?"}]},
        {"role": "assistant", "content": "No cats.", "sources": ["One.", {"id": "b", "text": "Two."}]},
    ]
    (case,) = read_conversation(chat)
    assert named(case) == [
        ("Rules, message 1", "No cats."),
        ("Site, message 1", "A"),
        ("source 1, message 2", "One."),
        ("b, message 2", "Two."),
    ]


def _used(name: str, id: str = "c1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": name, "input": {}}


def _result(kind: str, content: Any) -> dict[str, Any]:
    return {"type": f"{kind}_tool_result", "tool_use_id": "c1", "content": content}


TALL = "The tower is 330 m tall."
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}}
FETCHED = {"type": "document", "title": "Tower", "source": {"type": "text", "media_type": "text/plain", "data": TALL}}
SEARCHED = {"type": "web_search_result", "title": TALL, "url": "https://x", "encrypted_content": "Eo"}
RUN = {"type": "code_execution_result", "stdout": TALL, "stderr": "", "return_code": 0, "content": []}
AI_SDK = {"type": "tool-get", "toolCallId": "c1", "state": "output-available"}
UNAVAILABLE = {"type": "web_search_tool_result_error", "error_code": "unavailable"}


@pytest.mark.parametrize(
    ("blocks", "sources"),
    [
        (
            [
                {"type": "mcp_tool_use", "id": "c1", "name": "get", "server_name": "x", "input": {}},
                _result("mcp", [{"type": "text", "text": TALL}]),
            ],
            [("get", TALL)],
        ),
        (
            [_used("web_fetch"), _result("web_fetch", {"type": "web_fetch_result", "url": "u", "content": FETCHED})],
            [("web_fetch", f"u\nTower\n{TALL}")],
        ),
        (
            [_used("web_search"), _result("web_search", [SEARCHED, {**SEARCHED, "title": "B"}])],
            [("web_search", f"{TALL}\nhttps://x\nB\nhttps://x")],
        ),
        ([_used("web_search"), _result("web_search", UNAVAILABLE)], [("web_search", json.dumps(UNAVAILABLE))]),
        ([_used("code_execution"), _result("code_execution", RUN)], [("code_execution", TALL)]),
        (
            [_used("bash"), _result("bash_code_execution", {**RUN, "type": "bash_code_execution_result"})],
            [("bash", TALL)],
        ),
        (
            [  # LangChain
                {"type": "server_tool_call", "id": "c1", "name": "get", "args": {}},
                {"type": "server_tool_result", "tool_call_id": "c1", "status": "success", "output": TALL},
            ],
            [("get", TALL)],
        ),
        ([{"type": "mcp_call", "id": "c1", "name": "get", "output": TALL}], [("get", TALL)]),
        ([{**AI_SDK, "input": {}, "output": {"m": 330}}], [("get", '{"m": 330}')]),
        ([{**AI_SDK, "type": "dynamic-tool", "toolName": "get", "output": TALL}], [("get", TALL)]),
        ([{**AI_SDK, "state": "input-streaming", "input": {}}], []),
        ([{**AI_SDK, "type": "tool-count", "output": 0}], [("count", "0")]),
        ([_used("get"), _result("mcp", [{"type": "image", "source": PDF["source"]}])], []),
        ([PDF], []),
        (
            [{"type": "text", "text": "Look:", "citations": [{"cited_text": TALL, "document_title": "a.pdf"}] * 2}],
            [("a.pdf", TALL)],
        ),
        ([FETCHED, {"type": "text", "text": "Look:", "citations": [{"cited_text": "330 m"}]}], [("Tower", TALL)]),
        ([{"type": "text", "text": "Look:", "citations": None}], []),
    ],
)
def test_results_of_tools_that_run_on_servers_are_evidence(
    blocks: list[dict[str, Any]], sources: list[tuple[str, str]]
) -> None:
    chat = [("user", "How tall?"), {"role": "assistant", "content": [*blocks, {"type": "text", "text": SAID}]}]
    (case,) = read_conversation(chat)
    assert case.response.endswith(SAID)
    assert named(case) == [(f"{name}, message 2", text) for name, text in sources]


def _output(of: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": "c1", "output": of}


@pytest.mark.parametrize(
    ("item", "sources"),
    [
        ({"type": "file_search_call", "id": "f", "results": [{"filename": "a.pdf", "text": TALL}]}, [("a.pdf", TALL)]),
        ({"type": "file_search_call", "id": "f", "results": None}, []),
        ({"type": "mcp_call", "id": "m", "name": "get", "output": TALL}, [("get", TALL)]),
        (_output(TALL, "custom_tool_call_output"), [("get", TALL)]),
        (_output([{"city": "Oslo"}]), [("get", '[{"city": "Oslo"}]')]),
        (_output([{"type": "input_text", "text": TALL}, {"type": "input_image", "image_url": "x"}]), [("get", TALL)]),
        (
            {"type": "code_interpreter_call", "id": "i", "outputs": [{"type": "logs", "logs": TALL}]},
            [("code_interpreter", TALL)],
        ),
        (_output({"type": "computer_screenshot", "image_url": "x"}, "computer_call_output"), []),
        ({"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "x"}}, []),
        ({"type": "image_generation_call", "id": "g", "result": "iVBOR"}, []),
        ({"type": "mcp_list_tools", "id": "l", "tools": []}, []),
    ],
)
def test_items_of_responses_are_evidence(item: dict[str, Any], sources: list[tuple[str, str]]) -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "get", "input": ""}
    for form in (item, _object(**item)):
        (case,) = read_conversation([call, form, ("assistant", SAID)])
        assert named(case) == [(f"{name}, message 2", text) for name, text in sources]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "no turn of the assistant"),
        ([("user", "Hi")], "no turn of the assistant"),
        (["Hi"], "message 1: the text 'Hi' has no role"),
        ([("user", "Hi"), {"role": "narrator", "content": "x"}], "message 2: the role is 'narrator'"),
        ([{"role": "assistant", "content": 3}], "message 1: the content is a int"),
        ([{"role": "user", "tool_calls": 1}], "message 1: tool_calls is a int"),
        ([{"lc": 1, "id": 3}], "message 1: id is a int"),
        ([{"role": "user", "content": "Hi", "sources": 5}], "message 1: sources is a int"),
    ],
)
def test_what_is_no_conversation(messages: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_conversation(messages)


FIELDS = (
    *("role", "content", "type", "text", "tool_calls", "data", "blocks", "parts", "functionCall", "functionResponse"),
    *("response", "id", "source", "sources", "lc", "kwargs", "additional_kwargs", "name", "output", "results"),
    "citations",
)
NAMED = ("user", "assistant", "tool", "text", "tool_result", "tool-x", "document", "mcp_call", "web_search_result")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner | st.sampled_from(NAMED), max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=5))
def test_any_json_is_read_or_refused(messages: list[Any]) -> None:
    try:
        cases = decode_cases({"messages": messages}, default_id="1")
    except WireError:
        return
    assert all(case.response.strip() for case in cases)


@pytest.mark.parametrize("lines", [True, False])
def test_a_file_may_be_one_list_of_messages(tmp_path: Path, lines: bool) -> None:
    path = tmp_path / "chat.json"
    chat = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}]
    path.write_text("".join(json.dumps(message) + "\n" for message in chat) if lines else json.dumps(chat), "utf-8")
    (case,) = read_cases(path)
    assert (case.response, case.question) == (SAID, ASKED)
    case_with_role = {"response": SAID, "sources": [ASKED], "role": "user", "content": "x"}
    path.write_text(json.dumps([case_with_role] * 2), "utf-8")
    assert [case.response for case in read_cases(path)] == [SAID, SAID], "rows with a role are no conversation"
    path.write_text(json.dumps(chat[0]) + "\n{broken\n", "utf-8")
    with pytest.raises(DataError, match=r"chat.json:2"):
        list(read_cases(path))


def test_conversations_in_files(tmp_path: Path) -> None:
    chat = {"id": "c", "messages": [["user", "Hi."], ["assistant", "Hello."], ["assistant", "Bye."]], "sources": "S"}
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps(chat) + "\n" + json.dumps({"response": "x"}) + "\n")
    assert [case.id for case in read_cases(path)] == ["c message 2", "c message 3", "2"]
    assert [place.place.line for place in locate_cases(path, RowForm()) if place.place] == [1, 1, 2]
    assert decode_case(chat, default_id="1").response == "Bye."
    reader = RowReader(path, RowForm())
    assert reader.case(next(iter(reader.rows())), "1")[0].response == "Bye."  # a batch has one result per row
    with pytest.raises(WireError, match="unknown field 'answer'"):
        decode_case({**chat, "answer": "x"}, default_id="1")
    with pytest.raises(WireError, match="a field of another type"):
        decode_case({**chat, "system": True}, default_id="1")


@pytest.mark.parametrize("blocks", [False, True])
def test_a_prompt_in_the_field_system_is_a_system_message(blocks: bool) -> None:
    prompt: Any = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}] if blocks else SYSTEM
    chat = {"system": prompt, "messages": [["user", "When do they close?"], ["assistant", "At 9."]]}
    (case,) = decode_cases(chat, default_id="c")
    assert case.id == "c message 2"
    assert case.sources == (Source("system, message 0", "Shops close at 9."),)
    assert (case.history[0].speaker, case.history[0].text) == ("system", SYSTEM)


@pytest.mark.parametrize("system", [None, "", [], "none"])
def test_no_prompt_in_the_field_system(system: Any) -> None:
    (case,) = decode_cases({"system": system, "messages": [["system", SYSTEM], ["assistant", "At 9."]]}, default_id="c")
    assert case.sources == ()


def test_reasoning_is_neither_a_turn_nor_evidence() -> None:
    chat = [
        ("user", "How tall is it?"),
        ("assistant", "<think>553 m? Let me look.</think>"),
        ("tool", "height: 330 m"),
        ("assistant", "<think>Not 553 m.</think>330 m."),
        ("assistant", "Tall."),
    ]
    first, second = read_conversation(chat, assistant=True)
    assert first.response == "<think>Not 553 m.</think>330 m."  # spans stay places in the message
    assert texts(second) == ["height: 330 m", "330 m."]


def test_one_verdict_for_each_turn() -> None:
    results = veridical.check_conversation(
        [*OPENAI, {"role": "user", "content": "And cats?"}, {"role": "assistant", "content": "Cats may come in."}],
        ["Cats may come in."],
        detector="overlap",
    )
    assert [result.case.response for result in results] == [SAID, "Cats may come in."]
    assert results[-1].outcome.value == "clear"


def test_the_conversations_of_the_benchmark_say_what_is_right() -> None:
    lines = (Path(__file__).parents[2] / "benchmarks" / "data" / "conversations.jsonl").read_text("utf-8").splitlines()
    conversations = [json.loads(line) for line in lines]
    assert Counter(each["part"] for each in conversations) == {"dev": 20, "test": 20}
    assert set(Counter(each["kind"] for each in conversations).values()) == {5}
    assert {each["form"] for each in conversations} == {"openai", "anthropic", "langchain", "llamaindex"}
    for each in conversations:
        cases = read_conversation(each["messages"], id=each["id"])
        assert [case.id for case in cases] == [f"{each['id']} message {turn['message']}" for turn in each["turns"]]
        for turn in each["turns"]:
            errors = ("not retrieved", "misread", "added", "stitched", "wrong refusal")
            assert turn["verdict"] == "right" or turn["cause"] in errors


@pytest.mark.parametrize("system", ["", "< >", "Answer from this. It is red.", "<context>It is red.</context>"])
def test_what_is_no_name_of_a_tag_is_refused(system: str) -> None:
    with pytest.raises(InputError, match=r"system is .*a prompt is a message with the role system"):
        read_conversation([("system", "It is red."), ("user", "And?"), ("assistant", "Red.")], system=system)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ('{"day": "2024-05-20", "query": "who built the tower", "seats": 2}', '{"day": "2024-05-20", "seats": 2}'),
        ({"legs": [{"from": "JFK", "note": "a b"}, {}], "paid": True}, '{"legs": [{"from": "JFK"}], "paid": true}'),
        ('{"query": "who built the tower"}', None),
        ('{"state": "free", "fr": "fre"}', '{"fr": "fre"}'),  # the result says the first, and no part of a word
        ("[" * 5000, None),
        (f'{{"seats": 2, "all": [{"1, " * 20_000}1]}}', None),  # would grow in memory
        (functools.reduce(lambda inner, _: {"a": inner}, range(5000), 1), None),
        ("", None),
        (None, None),
    ],
)
def test_values_in_the_arguments_of_a_call_are_evidence_once_it_has_a_result(
    arguments: object, values: str | None
) -> None:
    call = {"id": "c1", "function": {"name": "search", "arguments": arguments}}
    chat: list[Any] = [
        ("user", "Any seat?"),
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "free"},
        ("assistant", "Yes, two."),
    ]
    first, last = read_conversation(chat)
    assert not first.sources
    wanted = [] if values is None else [("search call, message 3", values)]
    assert named(last) == [*wanted, ("search, message 3", "free")]


HOW_TALL = {"role": "user", "content": "How tall is it?"}
TALL = "It is 330 m tall."
EVIDENCE_OF_TOOLS = {
    "Gemini's grounding": [
        {"role": "user", "parts": [{"text": "How tall is it?"}]},
        {
            "role": "model",
            "parts": [{"text": TALL}],
            "groundingMetadata": {
                "groundingChunks": [
                    {"retrievedContext": {"title": "Guide", "text": "330 m"}},
                    {"web": {"title": "a.org", "uri": "https://a.org"}},
                ]
            },
        },
    ],
    "Bedrock's results of tools": [
        {"role": "user", "content": [{"text": "How tall is it?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "Guide", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "330 m"}]}}]},
        {"role": "assistant", "content": [{"text": TALL}]},
    ],
    "Cohere's documents": [
        {**HOW_TALL, "documents": [{"id": "d", "data": {"title": "Guide", "text": "330 m"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": TALL}]},
    ],
    "Cohere's citations": [
        HOW_TALL,
        {
            "role": "assistant",
            "content": [{"type": "text", "text": TALL}],
            "citations": [
                {"text": "330 m", "sources": [{"type": "document", "document": {"title": "Guide", "text": "330 m"}}]}
            ],
        },
    ],
    "OpenTelemetry's parts": [
        {"role": "user", "parts": [{"type": "text", "content": "How tall is it?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "t", "name": "Guide", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t", "response": "330 m"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": TALL}]},
    ],
    "ShareGPT": [
        {"from": "human", "value": "How tall is it?"},
        {"from": "observation", "value": "330 m"},
        {"from": "gpt", "value": TALL},
    ],
}


@pytest.mark.parametrize("tool", EVIDENCE_OF_TOOLS)
def test_evidence_in_the_forms_of_other_tools(tool: str) -> None:
    (case,) = read_conversation(EVIDENCE_OF_TOOLS[tool])
    assert (case.question, case.response) == ("How tall is it?", TALL)
    assert texts(case) == ["330 m"]
    assert tool == "ShareGPT" or case.sources[0].id.startswith("Guide, message ")


def test_conversations_of_sharegpt_are_read_from_files_and_requests(tmp_path: Path) -> None:
    row = {"id": "c", "conversations": EVIDENCE_OF_TOOLS["ShareGPT"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (from_file,) = read_cases(tmp_path / "rows.jsonl")
    (from_request,) = read_cases_of([row], Limits())
    assert from_file == from_request
    assert from_file.response == TALL
