"""Convert conversations to cases, one for each turn of the assistant.

The messages can have the forms of OpenAI, Anthropic, LangChain and others. Each turn is checked against the evidence
before it, which becomes the sources of the case: passages, tool results and statements of the user. Questions and
requests of the user are not evidence, because they state nothing. You can also choose a part of the system message as
evidence. Earlier turns of the assistant are not evidence by default.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import filterfalse
from typing import Any

from veridical.io.prompt_context import Context, Marker, context_of
from veridical.io.strict_json import most_values
from veridical.records.errors import InputError
from veridical.records.strings import answer_start, is_blank
from veridical.records.types import Case, Source, Turn
from veridical.text.segment import sentences, words

_ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "aimessagechunk", "model", "chatbot", "bot", "gpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
_HINT = '{"role": "user", "content": "…"}, with the roles system, user, assistant and tool'
_ELLIPTICAL = 6  # words; a shorter question depends on the turn before it ("And for children?")
_ASKS = re.compile(  # words that begin a request or an instruction, or are a greeting
    r"(?:(?:and|then|now|also|ok|okay|just)\b[ ,]{0,4}){0,3}(?:please|kindly|tell|give|show|list|write|explain|"
    r"describe|summari[sz]e|translate|compare|answer|respond|reply|find|check|look|use|help|let me know|make|create|"
    r"draft|suggest|recommend|remind|do not|don['’]t|always|never|you are an?|you (?:must|should)|"
    r"your (?:task|job|role|answer)|thanks?|thank you|hi|hello|hey)\b",
    re.IGNORECASE,
)
_ITEM = re.compile(  # items of OpenAI's Responses API, other than messages
    r"\A(?:\w+_call(?:_output)?|reasoning|compaction|item_reference|mcp_list_tools|mcp_approval_(?:request|response))"
)
_READABLE = re.compile(  # types of blocks that have their texts in `_FIELDS`
    r"(?:\w+_)?text|(?:web_)?(?:search|fetch)_result|(?=\w*code_execution)\w*_result|document|content|logs"
)
_LONGEST_VALUE = 100  # characters
_MOST_VALUES = 20_000  # most values in a call's arguments if they are a text; larger ones are not read
_PART = re.compile(r"\B(?<!\w)|\w+|\W")  # a part of a text: a word, a mark, or "" at a place that no word touches
_END = "end of a value"  # cannot be a part, because it contains spaces
_FIELDS = ("title", "url", "source", "page_age", "text", "data", "content", "stdout", "stderr", "logs")
_UNREADABLE = ("image", "image_url", "input_image", "computer_screenshot", "file", "input_file", "base64", "url")
_SUBJECT = (
    r"(?:i|you|he|she|it|we|they|there|this|that|these|those|my|your|our|his|her|its|their|any|all|some|every|each|"
    r"both|anyone|someone|everyone|people|children|kids|(?<!may )the|(?<!may )(?<!was )an?)\b"
)
_QUESTION = re.compile(  # the beginning or end of a question without a mark; lookaheads exclude similar statements
    r"(?:(?:so|and|but|or|well|then|now|also|ok|okay|just)\b[ ,]{0,4}){0,3}(?:"
    rf"(?:(?:should|were)\b(?!.*, {_SUBJECT})|am|can|could|did|do|does|is|are|has|may|might|shall|was|will|would)"
    rf"(?:n['’]?t)? {_SUBJECT}"  # "Should you need it, I am in."
    r"|(?:is|are|do|does) (?!not\b)\w"  # "Was told …", "Could not …", "Would like …" leave out "I"
    r"|(?:have|had|must)(?:n['’]?t)? (?:i|you|he|she|we|they)\b(?!.*,)"
    r"|(?:can|could|did|should|would|were) (?!always|sometimes)[^\W\d_]{3,}(?<!s)s\b"
    r"|(?:can|could|did|has|should|was|were|would|(?-i:will|may)) (?-i:[A-Z])"  # "Will Smith …", "May Day …"
    rf"|(?:what|why|how)(?! {_SUBJECT}|(?: is|['’]?s)? more\b)(?: |['’]?(?:s|re|d)\b)(?!.*\b(?:is|was) that {_SUBJECT})"
    r"|(?:who|whom|whose)(?:['’]?(?:s|re|d))?\b(?! (?:i|we|they)\b)"
    r"|which\b(?! (?:was|means)\b| is (?:why|what|how|when|where|because)\b)"
    rf"|(?:when|where)(?:['’]?s| (?:is|are|was|were|do|does|did|can|could|will|would|should|has|have))\b"
    rf"(?!.*, {_SUBJECT})"
    r"|(?:at|by|for|from|in|on|since|to|until|with) (?:what|which|how) (?!case)\w+ "
    r"(?:is|are|was|were|do|does|did|can|will)\b"
    r"|i(?:['’]m| am| was)? wonder(?:ing)?\b|i(?:['’]d like| would like| want| need) to know\b|any (?:idea|chance)\b"
    r"|.*(?:, (?:right|correct|or not|huh)|"
    r",? (?:is|are|was|were|do|does|did|ca|wo)n['’]?t (?:i|you|he|she|it|we|they))\Z"
    r")",
    re.IGNORECASE | re.DOTALL,
)
_REFERS = re.compile(r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|both|one|ones)\b", re.I)


@dataclass(slots=True)
class _Message:
    """One message, with its role, texts and tool calls (by id). `results` and `cited` are pairs of name and text."""

    role: str
    texts: list[str] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    results: list[tuple[str, str]] = field(default_factory=list)
    cited: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def add_call(self, id: object, name: object, call: Any) -> None:
        """Add a tool call. Its arguments are in one of the usual fields of `call`."""
        self.calls[str(id)] = str(name or "tool")
        given = (_get(call, place) for place in ("arguments", "args", "input", "tool_kwargs"))
        self.arguments[str(id)] = next((each for each in given if each is not None), None)


def is_tag(system: object) -> bool:
    """Return whether `system` is an option of `read_conversation` ("none", "all" or a tag), and not a system prompt.

    >>> is_tag("context"), is_tag("<context>"), is_tag("Be brief.")
    (True, True, False)
    """
    return isinstance(system, str) and re.fullmatch(r"<?[\w.:-]+>?", system) is not None


def named_messages(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rename the field `conversations` (ShareGPT's name) of a JSON object to `messages`.

    An object that has the field `messages`, or no list of conversations, is returned unchanged.
    """
    if "messages" in document or not isinstance(document.get("conversations"), list):
        return document
    return {"messages" if name == "conversations" else name: value for name, value in document.items()}


def read_conversation(
    messages: Iterable[Any],
    *,
    id: str = "1",
    sources: Sequence[Source] = (),
    system: str = "none",
    assistant: bool = False,
    only_last: bool = False,
    prompt: str | Sequence[Any] = "",
) -> list[Case]:
    """Build a case from each assistant turn of a conversation that contains text, in order.

    The sources of a case are the evidence in the messages before the turn: passages, tool results and statements of the
    user. The id of a case consists of `id` and the number of the message. The `question` of a case is the user's last
    turn. If that turn depends on an earlier one ("And for children?"), the user's turn before it is prepended.

    Messages may have `sources` of their own, which are evidence for all turns that follow. If a user's message contains
    a retrieved context in the form of a known prompt (`io.prompt_context`), this context is evidence, too.

    Args:
        messages: The conversation, as message objects or dictionaries of OpenAI (chat completions and responses),
            Anthropic, Gemini, LangChain, LlamaIndex or the AI SDK, or as pairs of role and text.
        id: The id of the conversation.
        sources: Passages that are evidence for every turn.
        system: The part of system messages that is evidence: "none", "all", or the name of a tag. The tag "context",
            for example, stands for the text between <context> and </context>, or for the context of a known prompt.
        assistant: If true, earlier assistant turns are evidence, too.
        only_last: If true, return only the case of the last assistant turn.
        prompt: A system message to put before the first message, as a text or a list of blocks. Its number is 0.

    Raises:
        InputError: A message has an unknown form, no assistant turn contains text, or `system` is not a tag.

    >>> chat = [("user", "What does it cost?"), ("tool", "price: 40"), ("assistant", "It costs 40.")]
    >>> case = read_conversation(chat)[0]
    >>> case.question, [source.text for source in case.sources], case.response
    ('What does it cost?', ['price: 40'], 'It costs 40.')
    """
    if not is_tag(system):
        hint = '"none", "all", or the name of a tag, such as "context"; a prompt is a message with the role system'
        raise InputError(f"system is {system!r:.60}", hint=hint)
    if prompt:
        messages = [{"role": "system", "content": prompt}, *messages]
    reader = _Reader(id, system, assistant, (), (), list(sources))
    for number, message in enumerate(messages, 0 if prompt else 1):
        reader.read(number, message)
    cases = reader.cases
    if not cases:
        raise InputError(f"conversation {id!r} has no turn of the assistant with a text", hint=_HINT)
    return cases[-1:] if only_last else cases


def coming_turn(
    messages: Iterable[Any],
    *,
    id: str = "1",
    sources: Sequence[Source] = (),
    evidence_roles: Collection[str] = (),
    markers: Sequence[Marker] = (),
) -> Case:
    """Build the case for a response of the assistant that is still to come, with an empty response.

    Use it to check a response while it is generated. The evidence in `messages` (passages, tool results and statements
    of the user) becomes the sources of the case. Of a system message, only a marked context is evidence: the text
    between <context> and </context>, or the retrieved context in a known prompt or at one of the `markers`.

    Args:
        messages: The conversation so far, as message objects, dictionaries, or pairs of role and text, in one of the
            forms that `read_conversation` accepts.
        id: The id of the case.
        sources: Further passages that are evidence.
        evidence_roles: Additional role names, such as "docs". The full text of their messages is evidence.
        markers: Markers that locate the retrieved context in prompts of your own (`io.prompt_context.Marker`).

    >>> coming_turn([("docs", "It is red."), ("user", "Which colour?")], evidence_roles=["docs"]).sources[0].text
    'It is red.'
    """
    reader = _Reader(id, "context", False, evidence_roles, markers, list(sources))
    for number, message in enumerate(messages, 1):
        reader.read(number, message)
    return replace(reader.case(0, ""), id=id)


@dataclass(slots=True)
class _Reader:
    """Reads messages one after another, and makes a case for each turn of the assistant.

    Attributes:
        id, system, assistant, evidence_roles, markers: As in `read_conversation` and `coming_turn`.
        evidence: The sources so far.
        history: The turns so far.
        calls: The name of each tool call, by the call's id.
        arguments: The arguments of each tool call that has no result yet.
        cases: The cases so far.
    """

    id: str
    system: str
    assistant: bool
    evidence_roles: Collection[str]
    markers: Sequence[Marker]
    evidence: list[Source]
    history: list[Turn] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)
    _repeats: Counter[str] = field(default_factory=Counter)
    _names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._names.update(source.id for source in self.evidence)

    def add(self, name: str, number: int, *texts: str) -> None:
        """Add the texts of a message to the evidence, each as a source with a name of its own."""
        for text in filterfalse(is_blank, texts):
            unique = place = f"{name}, message {number}"
            while unique in self._names:
                self._repeats[place] += 1
                unique = f"{place} ({self._repeats[place] + 1})"
            self._names.add(unique)
            self.evidence.append(Source(unique, text))

    def case(self, number: int, response: str) -> Case:
        """Make the case of a response in message `number`."""
        id, history = f"{self.id} message {number}", tuple(self.history)
        return Case(id, response, tuple(self.evidence), _question(history), history)

    def read(self, number: int, given: Any) -> None:
        """Read a message: first add its sources and tool results to the evidence, then read its text by role."""
        try:
            message, own_sources = _message(given, self.evidence_roles), list(_own_sources(given))
        except InputError as error:
            raise InputError(f"message {number}: {error.message}", hint=error.hint) from None
        for source in own_sources:
            self.add(source.id, number, source.text)
        self._read_results(number, message)
        role, text = message.role, message.text
        if role == "assistant":
            self._read_answer(number, text)
        elif role == "user":
            text = self._read_user(number, text)
        elif role == "system":
            context = context_of(text, self.markers) if self.system == "context" else None
            self.add("system", number, *_configured(text, self.system, context))
            if context and context.question:
                role, text = "user", context.question
        if role != "tool" and not is_blank(text):
            self.history.append(Turn(role, text))

    def _read_results(self, number: int, message: _Message) -> None:
        self.calls |= message.calls
        self.arguments |= message.arguments
        for name, result in message.results:
            tool = self.calls.get(name, name) or "tool"
            if not is_blank(result):
                self.add(f"{tool} call", number, _values(self.arguments.pop(name, None), result))
            self.add(tool, number, result)
        for name, passage in message.cited:
            if not any(passage in source.text for source in self.evidence):
                self.add(name, number, passage)

    def _read_answer(self, number: int, text: str) -> None:
        answer = text[answer_start(text) :]
        if not is_blank(answer):
            self.cases.append(self.case(number, text))
            if self.assistant:
                self.add("assistant", number, answer)

    def _read_user(self, number: int, text: str) -> str:
        """Add a user's context and statements to the evidence. Return the text without the context."""
        context = context_of(text, self.markers)
        if context:
            self.add("user", number, *context.passages)
            text = context.question or text
        if context is None or context.question:
            self.add("user", number, _statements(text))
        return text


def _values(arguments: Any, result: str) -> str:
    """Return, as JSON, the arguments of a call that its result does not repeat. Return "" if none is left.

    Texts of several words, or of more than 100 characters, are left out, because they may be claims.

    >>> _values('{"day": "2024-05-20", "query": "who built the tower", "seats": 2, "id": "A7"}', "A7 is free")
    '{"day": "2024-05-20", "seats": 2}'
    """
    try:
        given = arguments
        if isinstance(arguments, str):  # the limit on the values of a request does not count values inside a text
            too_many = most_values(arguments.encode(errors="replace")) > _MOST_VALUES
            given = None if too_many else json.loads(arguments)
        texts = set(_value_texts(given))
        kept = _only_values(given, texts - _repeated(texts, result))
        return json.dumps(kept, ensure_ascii=False) if isinstance(kept, Mapping) else ""
    except (ValueError, RecursionError):
        return ""


def _value_texts(value: Any) -> Iterator[str]:
    """Yield the numbers and the short one-word texts in JSON, as texts."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _value_texts(each)
    elif isinstance(value, str | int | float) and len(text := str(value)) <= _LONGEST_VALUE and len(text.split()) == 1:
        yield text


def _only_values(value: Any, texts: Collection[str]) -> Any:
    """Keep only the values in `texts`, and drop objects and lists that become empty. Return None if nothing is left."""
    if isinstance(value, Mapping):
        items = {str(name): kept for name, each in value.items() if (kept := _only_values(each, texts)) is not None}
        return items or None
    if isinstance(value, list | tuple):
        return [kept for each in value if (kept := _only_values(each, texts)) is not None] or None
    return value if value is not None and str(value) in texts else None


def _repeated(values: Iterable[str], text: str) -> set[str]:
    """Find the values that occur in `text` as whole words, in one pass over `text`.

    >>> sorted(_repeated(["5", "-5", "2024-05-20", "7"], "3-5 on 2024-05-20, not 77"))
    ['2024-05-20', '5']
    """
    tree: dict[str, Any] = {}  # a trie of the values' parts; after its last part, each value stands under `_END`
    for value in values:
        node = tree
        for part in _PART.findall(value):
            node = node.setdefault(part, {})
        node[_END] = value
    repeated = set()
    parts = _PART.findall(text)
    for i in range(len(parts)):
        node, k = tree, i
        while k < len(parts) and (below := node.get(parts[k])) is not None:
            node, k = below, k + 1
            if _END in node:
                repeated.add(node[_END])
    return repeated


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _items(value: Any, name: str) -> Sequence[Any]:
    """Return the list in the field `name`, or () for None. Raise `InputError` for anything but a list."""
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InputError(f"{name} is a {type(value).__name__}", hint="a list")
    return value


def _message(given: Any, evidence_roles: Collection[str] = ()) -> _Message:
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
        given = {"role": given[0], "content": given[1]}
    if isinstance(given, str):
        raise InputError(f"the text {given[:40]!r} has no role", hint=_HINT)
    if isinstance(given, Mapping) and "role" not in given and {"from", "value"} <= given.keys():  # ShareGPT's
        given = {"role": given["from"], "content": given["value"]}
    if _get(given, "lc") is not None:  # LangChain's dumps
        *_, kind = "", *_items(_get(given, "id"), "id")
        kwargs = _get(given, "kwargs")
        given = {"type": str(kind).removesuffix("Message"), **(kwargs if isinstance(kwargs, Mapping) else {})}
    inner = _get(given, "data") if _get(given, "role") is None else None  # LangChain's messages_to_dict
    if isinstance(given, Mapping) and isinstance(inner, Mapping):
        given = {**inner, "type": given.get("type")}
    kind = _get(given, "type")
    role = _get(given, "role") or kind
    name = str(role.value if isinstance(role, Enum) else role).casefold()
    if _get(given, "role") is None and name not in evidence_roles and _ITEM.fullmatch(name):
        message = _Message("tool")
        _read_item(given, name, message)
        return message
    if name not in evidence_roles and name not in _ROLES:
        raise InputError(f"the role is {role!r}", hint=_HINT)
    message = _Message("tool" if name in evidence_roles else _ROLES[name])
    calls = _get(given, "tool_calls") or _get(_get(given, "additional_kwargs") or {}, "tool_calls")
    for call in _items(calls, "tool_calls"):
        function = _get(call, "function") or call
        message.add_call(_get(call, "id"), _get(function, "name"), function)
    content = _get(given, "blocks") or _get(given, "parts") or _get(given, "content")
    _read_content(content, message)
    _read_grounding(given, message)
    if message.role == "tool":
        call_id = _get(given, "tool_call_id") or _get(_get(given, "additional_kwargs") or {}, "tool_call_id")
        name = str(_get(given, "name") or call_id or "tool")
        message.results = [(str(call_id) if call_id else name, message.text), *message.results]
        if call_id and _get(given, "name"):
            message.calls[str(call_id)] = name
    return message


def _read_grounding(given: Any, message: _Message) -> None:
    """Add the passages that a reply cites: the chunks of Gemini's grounding, or Cohere's documents and citations."""
    grounding = _get(given, "groundingMetadata") or _get(given, "grounding_metadata")
    for chunk in _items(_get(grounding, "groundingChunks") or _get(grounding, "grounding_chunks"), "groundingChunks"):
        context = _get(chunk, "retrievedContext") or _get(chunk, "retrieved_context") or _get(chunk, "web")
        message.cited.append((str(_get(context, "title") or "grounding"), str(_get(context, "text") or "")))
    documents = list(_items(_get(given, "documents"), "documents"))
    citations = _get(given, "citations")
    for citation in citations if isinstance(citations, list | tuple) else ():
        documents += _items(_get(citation, "sources"), "sources")
    for document in documents:
        message.cited.append(_document(document))


def _document(document: Any) -> tuple[str, str]:
    """Return the name and the text of one of Cohere's documents, whose fields may be in a nested object."""
    inner = next((found for name in ("document", "data", "tool_output") if (found := _get(document, name))), document)
    if inner is not document and isinstance(inner, Mapping) and "data" in inner:
        inner = inner["data"]
    text = next((found for name in ("text", "snippet", "content") if (found := _get(inner, name))), None)
    name = _get(inner, "title") or _get(document, "id") or "document"
    return str(name), _joined(inner if text is None and inner is not document else text)


def _read_item(item: Any, kind: str, message: _Message) -> None:
    """Read an item of OpenAI's Responses API: a call, the output of a call, or the passages of a file search."""
    call_id = str(_get(item, "call_id") or _get(item, "id") or "tool")
    if kind.endswith("_call"):
        message.add_call(call_id, _get(item, "name") or kind.removesuffix("_call"), item)
    for found in _items(_get(item, "results"), "results"):
        message.results.append((str(_get(found, "filename") or call_id), _joined(_get(found, "text"))))
    for name in ("output", "outputs"):
        message.results.append((call_id, _joined(_get(item, name))))


def _read_content(content: Any, message: _Message) -> None:
    """Sort the blocks of a message into texts, calls and evidence. Blocks without text, such as images, are skipped."""
    if content is None or isinstance(content, str):
        message.texts += [content] if content else []
        return
    if not isinstance(content, Sequence):
        raise InputError(f"the content is a {type(content).__name__}", hint="a text, or a list of blocks")
    for block in content:
        if isinstance(block, str):
            message.texts.append(block)
            continue
        kind = str(_get(block, "type") or _get(block, "block_type"))
        if kind == "None" and not _get(block, "thought"):
            _read_untyped(block, message)
            continue
        read = next((read for pattern, read in _BLOCKS if pattern.fullmatch(kind)), None)
        if read is not None:
            read(block, kind, message)


def _read_text(block: Any, kind: str, message: _Message) -> None:
    """Read a text with its citations."""
    message.texts.append(str(_get(block, "text") or _get(block, "content") or ""))
    citations = _get(block, "citations") or _get(block, "annotations")
    for citation in citations if isinstance(citations, list | tuple) else ():
        title = _get(citation, "document_title") or _get(citation, "title") or "citation"
        message.cited.append((str(title), str(_get(citation, "cited_text") or "")))


def _read_sdk_tool(block: Any, kind: str, message: _Message) -> None:
    """Read a call of the AI SDK with its output."""
    name = str(_get(block, "toolName") or kind.removeprefix("tool-"))
    message.add_call(_get(block, "toolCallId"), name, block)
    output = _get(block, "result") if _get(block, "output") is None else _get(block, "output")
    typed = isinstance(output, Mapping) and set(output) == {"type", "value"}
    message.results.append((str(_get(block, "toolCallId")), _joined(output["value"] if typed else output)))


def _read_call(block: Any, kind: str, message: _Message) -> None:
    name = _get(block, "name") or _get(block, "tool_name")
    message.add_call(_get(block, "id") or _get(block, "tool_call_id"), name, block)


def _read_result(block: Any, kind: str, message: _Message) -> None:
    call_id = str(_get(block, "tool_use_id") or _get(block, "tool_call_id"))
    message.results += [(call_id, _joined(_get(block, name))) for name in ("content", "output")]


def _read_otel_result(block: Any, kind: str, message: _Message) -> None:
    """Read a result of a tool in OpenTelemetry's form."""
    result = _get(block, "response") if _get(block, "result") is None else _get(block, "result")
    message.results.append((str(_get(block, "id")), _joined(result)))


def _read_document(block: Any, kind: str, message: _Message) -> None:
    if kind == "document" and _get(block, "document") is not None:
        message.results.append(_document(block))
        return
    source = _get(block, "source")
    title = str(_get(block, "title") or (source if isinstance(source, str) else kind))
    content = _get(block, "content") if source is None or isinstance(source, str) else source
    message.results.append((title, _joined(content)))


def _read_untyped(part: Any, message: _Message) -> None:
    """Read a part of a Gemini or Bedrock message. Only its fields tell whether it is a text, a call or a result."""
    if text := _get(part, "text"):
        message.texts.append(str(text))
    call = _get(part, "functionCall") or _get(part, "function_call")
    if call is not None:
        message.add_call(_get(call, "id") or _get(call, "name"), _get(call, "name"), call)
    result = _get(part, "functionResponse") or _get(part, "function_response")
    if result is not None:
        response = _get(result, "response")
        only = isinstance(response, Mapping) and len(response) == 1 and set(response) <= {"result", "output", "content"}
        text = _joined(next(iter(response.values())) if only else response)
        message.results.append((str(_get(result, "id") or _get(result, "name") or "tool"), text))

    if (use := _get(part, "toolUse")) is not None:
        message.add_call(_get(use, "toolUseId"), _get(use, "name"), use)
    if (found := _get(part, "toolResult")) is not None:
        blocks = _items(_get(found, "content"), "content")
        texts = [
            _joined(_get(block, "text") if _get(block, "json") is None else _get(block, "json")) for block in blocks
        ]
        message.results.append((str(_get(found, "toolUseId")), "\n".join(texts)))


def _joined(content: Any) -> str:
    """Return the text of a result.

    A string is returned unchanged. The texts of blocks are joined, and images and files are left out. Anything else
    becomes JSON.

    >>> _joined({"type": "web_search_result", "title": "Towers", "encrypted_content": "eJw"})
    'Towers'
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence):
        texts = [_get(block, "text") if (text := _block_text(block)) is None else text for block in content]
        if None not in texts:
            return "\n".join(str(text) for text in texts if text)
    elif (text := _block_text(content)) is not None:
        return text
    return json.dumps(content, ensure_ascii=False, default=str)


def _block_text(block: Any) -> str | None:
    """Return the text of a block, or None if the type of the block is unknown."""
    kind = str(_get(block, "type"))
    if kind in _UNREADABLE:
        return ""
    if not _READABLE.fullmatch(kind):
        return None
    return "\n".join(filter(None, (_joined(_get(block, name)) for name in _FIELDS)))


def _own_sources(given: Any) -> Iterator[Source]:
    own = given.get("sources") if isinstance(given, Mapping) else None
    for i, source in enumerate([own] if isinstance(own, str | Mapping | Source) else _items(own, "sources"), 1):
        if isinstance(source, Source):
            yield source
        elif isinstance(source, str):
            yield Source(f"source {i}", source)
        elif isinstance(source, Mapping) and isinstance(source.get("text"), str):
            yield Source(str(source.get("id", f"source {i}")), source["text"])
        else:
            raise InputError(f"a source is a {type(source).__name__}", hint='a text, or {"id": "…", "text": "…"}')


def _statements(text: str) -> str:
    """Return the sentences of a user's turn that are neither questions nor requests.

    >>> _statements("I am vegan. What can I eat? Tell me, please. I like rice.")
    'I am vegan.\\nI like rice.'
    """
    parts = [span.of(text) for span in sentences(text)]
    return "\n".join(part for part in parts if _states(part))


def _states(sentence: str) -> bool:
    """Return whether a sentence makes a statement.

    Questions (recognised by their mark or their words), requests, greetings and marks without a word make none.

    >>> [_states(sentence) for sentence in ("How tall? 🗼", "can I pay by card", "When I paid, it was 40 euros.")]
    [False, False, True]
    """
    if not (last := re.match(r".*\w", sentence, re.DOTALL)):
        return False
    said, marks = last[0], sentence[last.end() :]
    return {*"?？؟"}.isdisjoint(marks) and not _ASKS.match(said) and not _QUESTION.match(said)


def _configured(text: str, system: str, context: Context | None) -> list[str]:
    """Return the parts of a system message that are evidence. `context` is the context of a known prompt, or None."""
    if system == "none":
        return []
    if system == "all":
        return [text]
    tag = re.compile(rf"<(/?){re.escape(system.strip('<>'))}\b[^<>]*>", re.IGNORECASE)
    if context and all(found[1] for found in tag.finditer(context.text)):
        return context.passages
    parts, start = list[str](), -1
    for found in tag.finditer(text):
        if not found[1]:
            start = found.end() if start < 0 else start
        elif start >= 0:
            parts.append(text[start : found.start()].strip())
            start = -1
    return parts


def _question(history: Sequence[Turn]) -> str | None:
    """Return the user's last turn. If it is short or refers back, the user's turn before it is prepended.

    Return None if there is no user's turn.
    """
    asked = [turn.text for turn in history if turn.speaker == "user"]
    if not asked:
        return None
    question = asked[-1]
    count = len(words(question))
    if len(asked) > 1 and (count < _ELLIPTICAL or (count < 3 * _ELLIPTICAL and _REFERS.search(question))):
        question = f"{asked[-2]} {question}"
    return question


_BLOCKS: list[tuple[re.Pattern[str], Callable[[Any, str, _Message], None]]] = [
    (re.compile(r"(?:in|out)put_text|text"), _read_text),
    (re.compile(r"\Atool-.*|dynamic-tool", re.DOTALL), _read_sdk_tool),
    (re.compile(r"\A.*(?:tool_use|tool_call)", re.DOTALL), _read_call),
    (re.compile(r"\A.*tool_result", re.DOTALL), _read_result),
    (re.compile(r"tool_call_response"), _read_otel_result),
    (re.compile(r"document|search_result"), _read_document),
    (_ITEM, _read_item),
]
"""Patterns of block types, each with the function that reads such blocks. The first that fits is used."""
