"""How the processor time of each path that one request can make long grows: at n, 2n and 4n.

A linear path has ratios near 2, a quadratic one has 4. The least time of several rounds counts, so that a busy machine
does not matter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from veridical.detectors import load_detector
from veridical.detectors.claims.qa_checker import read_questions
from veridical.detectors.default.copies import is_copied
from veridical.detectors.discrepancies.discrepancy import Discrepancy, with_verdicts
from veridical.detectors.overlap.detector import Overlap
from veridical.io.columns import Columns, as_case
from veridical.io.conversations import read_conversation
from veridical.io.documents import document_of
from veridical.io.serialization import decode_case
from veridical.io.strict_json import parse
from veridical.llm.reply_parser import json_object, labelled, yes_no
from veridical.records.decide import decide
from veridical.records.errors import InputError, WireError
from veridical.records.spans import Span
from veridical.records.spec import parse_spec
from veridical.records.types import Case, Judgement, Source, Verdict
from veridical.server.errors import Refused
from veridical.server.protection import lines
from veridical.server.proxy import StreamedReply
from veridical.server.replies import ReplyChecker
from veridical.server.service import Service
from veridical.server.sessions import open_session
from veridical.server.settings import ProxySettings, ServerSettings
from veridical.text.citations import find_citations, statements
from veridical.text.framing import without_citations
from veridical.text.identifiers import identifiers
from veridical.text.markup import without_markup
from veridical.text.names import is_name
from veridical.text.quotes import find_quote
from veridical.text.segment import sentences, words
from veridical.workflows.causes.finding import cause_of
from veridical.workflows.checking import check_cases
from veridical.workflows.revise import Delete, revise

MOST = 3.2
"""The highest ratio of the times of 4n and 2n that still counts as linear."""


def repeated_keys(n: int) -> Callable[[], object]:
    text = "{" + ", ".join(f'"{name}": 1' for name in (*range(n), n - 1)) + "}"

    def run() -> None:
        with suppress(WireError):
            parse(text)

    return run


def wavering_answer(n: int) -> Callable[[], object]:
    return lambda: yes_no("Yes " + "!/" * n)


def labelled_line(n: int) -> Callable[[], object]:
    return lambda: labelled("Supported: a" + " *" * n + "b", "Supported")


def questions(n: int) -> Callable[[], object]:
    return lambda: read_questions("Question: When?\nAnswer: a" + " *" * n + "b", "Built in 1889.")


def many_objects(n: int) -> Callable[[], object]:
    return lambda: json_object('{"a": 1} ' * n)


def many_sources(n: int) -> Callable[[], object]:
    sources = tuple(Source(str(i), "a") for i in range(n))

    def run() -> None:
        case = Case("1", "", sources)
        for source in sources:
            case.source(source.id)

    return run


def overlap_of_many_sources(n: int) -> Callable[[], object]:
    sources = tuple(Source(str(i), f"The tower {i} is {i} m tall.", must_cover=True) for i in range(n))
    case = Case("1", " ".join(source.text for source in sources), sources)
    return lambda: Overlap().judge([case])


def long_number(n: int) -> Callable[[], object]:
    case = Case("1", f"It is {'7' * n} km.", (Source("1", f"It is {'8' * n} km."),))
    return lambda: Overlap(words="values").judge([case])


def one_piece_of_chinese(n: int) -> Callable[[], object]:
    text = "".join(chr(0x4E00 + i * 7919 % 20000) for i in range(n))
    return lambda: (sentences(text), [is_name(text, word) for word in words(text)])


def all_capitals(n: int) -> Callable[[], object]:
    text = "THE TOWER " * n
    return lambda: [is_name(text, word) for word in words(text)]


def line_in_pieces(n: int) -> Callable[[], object]:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(n):
            yield b"x" * 64

    async def read() -> list[bytes]:
        return [line async for line in lines(pieces(), 1 << 40, Refused(413, "too large"))]

    return lambda: asyncio.run(read())


def case_of_json(n: int) -> Callable[[], object]:
    text = json.dumps({"response": "a", "sources": ["b" * 40] * n})
    return lambda: decode_case(text, default_id="1")


def tags_without_an_end(n: int) -> Callable[[], object]:
    chat = [("system", "<context>" * n + "<context " * n), ("assistant", "It rains.")]
    return lambda: read_conversation(chat, system="context")


def results_of_one_tool(n: int) -> Callable[[], object]:
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "It rains."}] * n
    chat = [{"role": "user", "content": results}, ("assistant", "It rains.")]
    return lambda: read_conversation(chat)


class _Direct:
    """A detector without a queue: word overlap of whatever it gets."""

    name, detector = "overlap", Overlap()

    async def call(self, function: Callable[[Overlap], object]) -> object:
        return function(self.detector)

    async def judge(self, cases: list[Case], detector: object = None) -> list[tuple[Judgement, None]]:
        return [(judgement, None) for judgement in self.detector.judge(cases)]


def _streamed(texts: list[str]) -> None:
    async def run() -> None:
        case = Case("1", "", (Source("1", "The tower is 330 m tall."),))
        session = await open_session(_Direct(), case, None)  # type: ignore[arg-type]
        for text in texts:
            await session.feed(text)
        await session.feed("", final=True)

    asyncio.run(run())


def stream_of_sentences(n: int) -> Callable[[], object]:
    return lambda: _streamed([f"Number {i} is new{', and so is the next one' * 10}. " for i in range(n)])


def stream_without_a_sentence(n: int) -> Callable[[], object]:
    return lambda: _streamed(["word "] * n)


def proxied_stream(n: int) -> Callable[[], object]:
    """Chunks of two characters through the proxy."""

    async def run() -> None:
        settings = ServerSettings(detectors=(), own_detectors={"overlap": Overlap()})
        service = Service(settings)
        await service.start()

        async def chunks() -> AsyncIterator[dict[str, object]]:
            for _ in range(n):
                yield {"choices": [{"index": 0, "delta": {"content": "a "}}]}

        proxy = ProxySettings(base_url="http://127.0.0.1:1/v1", action="block")
        checker = ReplyChecker(service, proxy, {"messages": []}, "1")
        async for _ in StreamedReply(checker, chunks()).events():
            pass
        await service.close()

    return lambda: asyncio.run(run())


def html_document(n: int) -> Callable[[], object]:
    data = b"<p>The <b>tower</b> is tall.</p>" * n
    return lambda: document_of(data, Path("a.html"))


def markdown_document(n: int) -> Callable[[], object]:
    data = b"- The **tower** is [tall](a).\n\n" * n
    return lambda: document_of(data, Path("a.md"))


def explained(n: int) -> Callable[[], object]:
    case = Case("1", "Pigs fly over 7 moons. " * n, (Source("1", "The tower is 330 m tall."),))
    return lambda: list(check_cases([case], [Overlap()], explain=True))


def paragraph_signs(n: int) -> Callable[[], object]:
    return lambda: list(identifiers("§" * n))


def invented_names(n: int) -> Callable[[], object]:
    case = Case("1", "".join(f"Use read_{i}() now. " for i in range(n)), (Source("1", "The tower is 330 m tall."),))
    return lambda: list(check_cases([case], [Overlap()], explain=True))


def cause_of_one_sentence(n: int) -> Callable[[], object]:
    case = Case("1", "".join(f"alpha{i} beta Oslo 7 " for i in range(n)), (Source("1", "The tower is 330 m tall."),))
    (checked,) = check_cases([case], [Overlap()])
    return lambda: cause_of(checked, 0.9, 0.9)


def claims_with_one_value(n: int) -> Callable[[], object]:
    text, verify = "!\t““1é,=" * n, load_detector("verify:overlap")
    return lambda: list(check_cases([Case("1", text, (Source("1", text),))], [verify], explain=True))


def blanks_in_a_spec(n: int) -> Callable[[], object]:
    text = "overlap:" + " " * n + '"x'

    def run() -> None:
        with suppress(InputError):
            parse_spec(text)

    return run


def lines_in_a_citation(n: int) -> Callable[[], object]:
    return lambda: find_citations("[source" + "\n" * n + "x")


def line_breaks(n: int) -> Callable[[], object]:
    return lambda: without_markup("a" + "\n" * n + "b")


def marks_before_a_copy(n: int) -> Callable[[], object]:
    return lambda: is_copied("it rained all day", "Note " + "| " * n + " x it rained all day.")


def type_of_content(n: int) -> Callable[[], object]:
    block = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "code_execution_" * n + "!"}]}
    return lambda: read_conversation([{"role": "user", "content": [block]}, ("assistant", "It rains.")])


def blanks_in_a_cell(n: int) -> Callable[[], object]:
    row = {"response": "It rains.", "sources": " " * n + "x"}
    return lambda: as_case(row, Columns("response", ("sources",)), default_id="1")


def arguments_of_a_call(n: int) -> Callable[[], object]:
    call = {"id": "1", "name": "search", "args": {f"a{i}": f"{i}-b" for i in range(n)}}
    result = {"role": "tool", "tool_call_id": "1", "content": " ".join(f"{i}-c" for i in range(n))}
    chat = [{"role": "assistant", "content": "", "tool_calls": [call]}, result, ("assistant", "It rains.")]
    return lambda: read_conversation(chat)


def footnote_marks(n: int) -> Callable[[], object]:
    text = "Rains fall.[^1] " * n + "\n" + "[^1]: Ling 2009\n" * n
    return lambda: statements(text, cited=True)


def many_different_words(n: int) -> Callable[[], object]:
    text = "".join(f"wo{i}rd co{i}op " for i in range(n))
    case = Case("1", text, (Source("1", text),))
    return lambda: Overlap().judge([case])


def split_words(n: int) -> Callable[[], object]:
    names = ["".join(chr(97 + i // 26**k % 26) for k in range(5)) for i in range(n)]
    text, other = (" ".join(f"lib{name}{tail} dem{name}{tail}" for name in names) for tail in ("", "x"))
    case = Case("1", text, (Source("1", other),))
    return lambda: Overlap().judge([case])


_ELSEWHERE = (Source("1", "It rains."),)


def _revised(text: str, sources: tuple[Source, ...]) -> Callable[[], object]:
    return lambda: revise([Case("1", text, sources)], Overlap(), Delete())


def revised_list(n: int) -> Callable[[], object]:
    return _revised("".join(f"- Item {i} is {i} m.\n" for i in range(n)), _ELSEWHERE)


def revised_table(n: int) -> Callable[[], object]:
    text = "| a | b |\n|---|---|\n" + "".join(f"| row {i} | {i * 3} m |\n" for i in range(n))
    return _revised(text, (Source("1", text),))


def revised_short_sentences(n: int) -> Callable[[], object]:
    return _revised("天气很好。" * n, (Source("1", "天气很好。"),))


def note_marks(n: int) -> Callable[[], object]:
    text = "a [1]. " * n + "".join(f"b [^{i}]. " for i in range(n)) + "\n" + "".join(f"[^{i}]: c\n" for i in range(n))
    return lambda: without_citations(text, _ELSEWHERE, only_known=True)


def raised_numbers(n: int) -> Callable[[], object]:
    return lambda: without_citations("It rains." + "²³" * n, _ELSEWHERE)


def mail_addresses(n: int) -> Callable[[], object]:
    case = Case("1", "a@b.c " * n, _ELSEWHERE)
    return lambda: Overlap().judge([case])


def explained_words(n: int) -> Callable[[], object]:
    case = Case("1", "a.b." * n, _ELSEWHERE)
    return lambda: list(check_cases([case], [Overlap()], explain=True))


def sentences_scored(n: int) -> Callable[[], object]:
    spans = [Span(10 * i, 10 * i + 9) for i in range(n)]
    verdicts = tuple(Verdict(span, 0.9) for span in spans)
    case, judgement = Case("1", "It rains. " * n), Judgement("1", "a", 0.9, verdicts=verdicts, sentences=verdicts)
    found = [Discrepancy(span, "value", "no source has it") for span in spans]
    return lambda: (decide(case, judgement), with_verdicts(case.response, found, verdicts, verdicts))


def used_quotes(n: int) -> Callable[[], object]:
    used = [Span(5 * i, 5 * i + 4) for i in range(n)]
    return lambda: find_quote("rain " * n, "Rain, rain", used=used, min_similarity=0.9)


PATHS: dict[Callable[[int], Callable[[], object]], int] = {
    repeated_keys: 40_000,
    wavering_answer: 100_000,
    labelled_line: 4_000_000,
    questions: 4_000_000,
    many_objects: 20_000,
    many_sources: 20_000,
    overlap_of_many_sources: 1_000,
    long_number: 400_000,
    one_piece_of_chinese: 20_000,
    all_capitals: 5_000,
    line_in_pieces: 40_000,
    case_of_json: 20_000,
    tags_without_an_end: 20_000,
    results_of_one_tool: 5_000,
    stream_of_sentences: 50,
    stream_without_a_sentence: 5_000,
    proxied_stream: 500,
    html_document: 1_000,
    markdown_document: 500,
    explained: 200,
    paragraph_signs: 200_000,
    invented_names: 200,
    cause_of_one_sentence: 200,
    claims_with_one_value: 6_000,
    blanks_in_a_spec: 400_000,
    lines_in_a_citation: 400_000,
    line_breaks: 100_000,
    marks_before_a_copy: 40_000,
    type_of_content: 20_000,
    blanks_in_a_cell: 400_000,
    arguments_of_a_call: 5_000,
    footnote_marks: 5_000,
    many_different_words: 8_000,
    split_words: 4_000,
    revised_list: 4_800,
    revised_table: 4_800,
    revised_short_sentences: 6_400,
    note_marks: 6_400,
    raised_numbers: 8_000,
    mail_addresses: 8_000,
    explained_words: 8_000,
    sentences_scored: 16_000,
    used_quotes: 96_000,
}


def seconds(run: Callable[[], object], rounds: int) -> float:
    """Return the least processor time of some runs, without the garbage collector, whose time depends on the heap."""
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)


def is_steep(path: Callable[[int], Callable[[], object]], n: int) -> bool:
    """Return whether `path` takes much more than four times as long at 4n as at n; 16 times is quadratic.

    It is measured up to four times, because another program may have disturbed it.
    """
    for _ in range(4):
        one, four = seconds(path(n), 2), seconds(path(4 * n), 1)
        if four < 8 * one + 0.05:
            return False
    return True


def rows() -> Iterator[dict[str, Any]]:
    """Measure each path; repeat one whose ratio looks high, because another program may have disturbed it."""
    for path, n in PATHS.items():
        for rounds in (1, 3, 5):
            one, two, four = (seconds(path(factor * n), rounds) for factor in (1, 2, 4))
            if four < MOST * two:
                break
        yield {"path": path.__name__.replace("_", " "), "n": n, "seconds": [round(x, 4) for x in (one, two, four)]}
