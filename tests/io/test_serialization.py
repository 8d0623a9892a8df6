"""The JSON form goes both ways without loss, fits its schema, and anything else is one clear line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.processes import python
from veridical.io.serialization import KINDS, TAG, decode, decode_case, encode, kind_of, read_documents, schema, tag_of
from veridical.io.strict_json import parse
from veridical.records.decide import decide
from veridical.records.errors import DataError, UnknownNameError, WireError
from veridical.records.spans import Span
from veridical.records.types import (
    Case,
    Checked,
    Claim,
    Edit,
    Evidence,
    Example,
    Judgement,
    Omission,
    Outcome,
    Revision,
    Source,
    Thresholds,
    Turn,
    Usage,
    Verdict,
)

TEXT = st.text(st.one_of(st.sampled_from('aé猫😀\n\r"\\\0\u2028\x7f\ufeff'), st.characters(codec="utf-8")), max_size=12)
SCORE = st.floats(0, 1)
COUNT = st.integers(0, 10**20)


def some(strategy: st.SearchStrategy[Any], size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=size).map(tuple)


def span_in(text: str) -> st.SearchStrategy[Span]:
    place = st.integers(0, len(text))
    return st.tuples(place, place).map(lambda p: Span(min(p), max(p)))


SOURCES = st.lists(
    st.builds(Source, TEXT, TEXT, st.none() | TEXT, st.booleans(), st.none() | TEXT),
    max_size=3,
    unique_by=lambda s: s.id,
).map(tuple)
CASE = st.builds(Case, TEXT, TEXT, SOURCES, st.none() | TEXT, some(st.builds(Turn, TEXT, TEXT)), st.none() | TEXT)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, st.none() | st.floats(0, allow_infinity=False))


@st.composite
def judgements(draw: st.DrawFn, case: Case) -> Judgement:
    span = span_in(case.response)
    many = 3 if case.sources else 0
    in_source = [st.tuples(st.just(s.id), span_in(s.text)) for s in case.sources]
    words, score = st.none() | TEXT, st.none() | SCORE
    place = st.one_of(in_source) if in_source else st.nothing()
    evidence = st.builds(lambda p, w: Evidence(*p, w), place, SCORE)
    omission = st.builds(lambda p, s, r: Omission(*p, s, r), place, SCORE, words)
    claim = st.none() | st.builds(Claim, TEXT, some(span))
    verdict = st.builds(Verdict, span, SCORE, words, claim, some(evidence, many), words, words)
    lists = (some(verdict), some(omission, many), st.none() | some(span), some(TEXT))
    more = (st.none() | USAGE, words, some(st.tuples(TEXT, TEXT)))
    return draw(st.builds(Judgement, st.just(case.id), TEXT, score, score, *lists, *more))


@st.composite
def examples(draw: st.DrawFn) -> Example:
    case = draw(CASE)
    group = draw(some(st.tuples(TEXT, TEXT)))
    return Example(case, draw(judgements(case)), draw(st.none() | TEXT), group, draw(some(judgements(case), 2)))


@st.composite
def checks(draw: st.DrawFn) -> Checked:
    case = draw(CASE)
    judged = draw(some(judgements(case), 2))
    limits = st.builds(Thresholds, SCORE, SCORE, SCORE, SCORE)
    decisions = tuple(decide(case, judgement, draw(limits)) for judgement in judged)
    return Checked(case, judged, decisions, draw(st.sampled_from(Outcome)))


REVISION = st.builds(Revision, TEXT, some(st.builds(Edit, span_in("x" * 99), TEXT, TEXT)), TEXT)
RECORDS = {
    "case": CASE,
    "judgement": CASE.flatmap(judgements),
    "example": examples(),
    "check": checks(),
    "revision": REVISION,
}
VALIDATORS = {kind: jsonschema.Draft202012Validator(schema(kind)) for kind in KINDS}


def test_every_kind_of_record_is_tried() -> None:
    assert set(RECORDS) == {kind for kind, target in KINDS.table.items() if target.startswith("veridical.records.")}


@pytest.mark.parametrize("kind", RECORDS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_record_comes_back_as_it_went(kind: str, data: st.DataObject) -> None:
    record = data.draw(RECORDS[kind])
    text = encode(record)
    assert kind_of(record) == kind
    assert "\n" not in text
    assert decode(text) == decode(text.encode(), kind) == decode(parse(text)) == record
    assert decode(encode(record, indent=2)) == record
    assert next(iter(json.loads(text))) == TAG
    VALIDATORS[kind].validate(json.loads(text))


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_schema_is_a_schema_and_knows_the_tag(kind: str) -> None:
    described = schema(kind)
    jsonschema.Draft202012Validator.check_schema(described)
    assert described["properties"][TAG] == {"const": tag_of(kind)}
    assert set(described["properties"]) == {TAG, *(f.name for f in dataclasses.fields(KINDS.load(kind)))}
    assert not VALIDATORS[kind].is_valid({TAG: tag_of(kind), "stray": 1})


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_record_in_a_document_is_read_strictly(kind: str) -> None:
    described = schema(kind)
    for name, body in {kind: described, **described.get("$defs", {})}.items():
        if "properties" in body:
            assert body["additionalProperties"] is False, name


def test_reading_a_case_loads_no_detector() -> None:
    code = 'import sys, veridical.io.serialization as s; s.decode(\'{"response":"a","id":"1"}\', \'case\'); '
    code += "print(*{n.split('.')[1] for n in sys.modules if n.startswith('veridical.')})"
    done = python("-c", code, text=True, check=True)
    assert set(done.stdout.split()) <= {"records", "text", "io", "workflows"}


ROWS = sorted((Path(__file__).parents[2] / "benchmarks" / "rows").glob("*.jsonl"))


@pytest.mark.parametrize("path", [p for p in ROWS if '"veridical"' in p.read_text("utf-8")[:100]], ids=lambda p: p.stem)
def test_committed_rows_are_documents_and_stay_what_they_are(path: Path) -> None:
    count = 0
    for line, record in read_documents(path, "row", "comparison", "finding", "peak", "prevalence"):
        count += 1
        kind = kind_of(record)
        assert decode(encode(record)) == record
        VALIDATORS[kind].validate(json.loads(line.text))
    assert count


def test_a_file_of_documents_says_where_it_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for line, message in (
        ("{", "not JSON"),
        ('{"id":"1","response":"a"}', '"veridical" is a JSON null, not case/1 or example/1 .*written by hand'),
        (encode(Revision("1", (), "x")), "'revision/1', not case/1 or example/1"),
        (case('"sources":[1]'), r"case.sources\[0\]: should be an object"),
    ):
        path.write_text(encode(Case("1", "x")) + "\n\n" + line + "\n")
        with pytest.raises(DataError, match=rf"a\.jsonl:3: .*{message}"):
            list(read_documents(path, "case", "example", hint="written by hand"))


def test_a_schema_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean judgement"):
        schema("judgment")


def test_defaults_are_left_out() -> None:
    assert encode(Case("1", "é")) == '{"veridical": "case/1", "id": "1", "response": "é"}'
    assert "judged" not in encode(Judgement("1", "x"))
    assert '"judged": []' in encode(Judgement("1", "x", judged=()))


@pytest.mark.parametrize(
    "record, message",
    [
        (Case("1", "\ud800"), "case: half of a surrogate pair"),
        (Case("1", "a", (Source("\udfff", "a"),)), "case: half of a surrogate pair"),
        (Judgement("1", "x", usage=Usage(cost=float("nan"))), "judgement: a number is infinite or not a number"),
        (Judgement("1", "x", usage=Usage(cost=float("inf"))), "judgement: a number is infinite or not a number"),
        (Case(1, "a"), r"case: .*id.* \(records hold plain Python"),  # type: ignore[arg-type]
        (Case("1", "a", question=object()), r"case: .*object"),  # type: ignore[arg-type]
        (Case("1", "a", (Source("a", "a", pages=[0]),)), "case: .*tuple"),  # type: ignore[arg-type]
        (Span(0, 1), "Span has no JSON form .one of .*case, .*judgement"),
    ],
)
def test_what_has_no_json_form_is_refused(record: object, message: str) -> None:
    with pytest.raises(WireError, match=message) as caught:
        encode(record)
    assert len(str(caught.value).splitlines()) == 1


def judgement(field: str) -> str:
    return f'{{"veridical":"judgement/1","case_id":"1","by":"x",{field}}}'


def case(field: str) -> str:
    return f'{{"veridical":"case/1","id":"1","response":"x",{field}}}'


def example(fields: str) -> str:
    return f'{{"veridical":"example/1","case":{{"id":"1","response":"a"}},{fields}}}'


MALFORMED = [
    # not a document
    ("", "not JSON: Expecting value at line 1 column 1"),
    ('{"a":\n 1,}', "not JSON: .* at line 2 column"),
    ("5", "found a JSON number"),
    ("[]", "found a JSON array"),
    ('"case"', "found a JSON string"),
    ("null", "found a JSON null"),
    ("true", "found a JSON boolean"),
    (b"\xff\xfe\xfd", "the text is not UTF-8"),
    ("[" * 100_000, "nested too deeply"),
    (case('"question":' + '{"a":' * 100_000), "nested too deeply"),
    (case('"question":' + "[" * 600 + "]" * 600), "should be a valid string"),
    # kind and version
    ("{}", "does not say what it is: no 'veridical' field"),
    ('{"veridical":"cases/1"}', "\"veridical\": 'cases/1' is not a known document .known: .*case/1, .*judgement/1"),
    ('{"veridical":"case"}', "'case' is not a known document"),
    ('{"veridical":["case/1"]}', "a JSON array is not a known document"),
    ('{"veridical":{}}', "a JSON object is not a known document"),
    ('{"veridical":"case/2"}', "a case of version '2' .this Veridical reads version 1"),
    ('{"veridical":"case/1.0"}', "a case of version '1.0'"),
    ('{"veridical":"' + "x" * 999 + '/1"}', "xxx …' is not a known document"),
    # fields
    ('{"veridical":"case/1","id":"1"}', "case.response: field required"),
    (case('"quesion":"x"'), "case: unknown field 'quesion' .did you mean question"),
    (case('"sources":[{"id":"1","txt":"x"}]'), r"case.sources\[0\]: unknown field 'txt' .did you mean text"),
    (judgement('"verdicts":[{"span":{"start":0,"stop":1},"score":0}]'), r"verdicts\[0\].span: unknown field 'stop'"),
    (judgement('"verdicts":[{"span":{"start":0,"end":1},"score":0,"claim":{"txt":""}}]'), "claim: unknown field 'txt'"),
    (judgement('"omissions":[{}]'), r"judgement.omissions\[0\].source_id: field required"),
    ('{"veridical":"case/1","id":"1","id":"2"}', "the key 'id' stands twice in one object"),
    (case('"sources":[{"a\\n\\ud800":1,"a\\n\\ud800":2}]'), r"the key 'a\\n\\ud800' stands twice"),
    # values
    (case('"question":1'), "should be a valid string"),
    (case('"question":true'), "should be a valid string"),
    (case('"sources":{}'), "case.sources: should be a valid array"),
    (case('"sources":[1]'), r"case.sources\[0\]: should be an object"),
    (case('"sources":[{"id":"1","text":"a"},{"id":"1","text":"b"}]'), "two sources share the id '1'"),
    (case('"sources":[{"text":"a","must_cover":1}]'), r"sources\[0\].must_cover: should be a valid boolean"),
    (case('"question":"\\ud800"'), "case: half of a surrogate pair"),
    (judgement('"hallucination":1.5'), "judgement: the hallucination score is 1.5"),
    (judgement('"hallucination":"0.5"'), "judgement.hallucination: should be a valid number"),
    (judgement('"hallucination":true'), "judgement.hallucination: should be a valid number"),
    (judgement('"hallucination":NaN'), "found NaN"),
    (judgement('"hallucination":-Infinity'), "found -Infinity"),
    (judgement('"hallucination":1e999'), "found 1e999"),
    (judgement('"usage":{"cost":-1e999}'), "found -1e999"),
    (judgement('"hallucination":' + "9" * 400), "an integer of too many digits"),
    (judgement('"hallucination":' + "9" * 5000), "an integer of too many digits"),
    (judgement('"judged":[{"start":true,"end":1}]'), r"judged\[0\].start: should be a valid integer"),
    (judgement('"judged":[{"start":0,"end":1.5}]'), r"judged\[0\].end: should be a valid integer"),
    (judgement('"judged":[{"start":2,"end":1}]'), r"judged\[0\]: span \[2, 1\) is not a span"),
    (judgement('"judged":[[0,1]]'), r"judged\[0\]: should be an object"),
    (
        '{"veridical":"check/2","case":{"id":"1","response":""},"judgements":[],"decisions":[],"outcome":"ok"}',
        "check.outcome: should be 'clear', 'flagged', 'no_claim' or 'unjudged'",
    ),
    (
        example('"gold":{"case_id":"1","by":"x","judged":[{"start":0,"end":2}]}'),
        r"example: case '1', judged by 'x': span \[0, 2\) runs past the response of 1 characters",
    ),
    (example('"gold":{"case_id":"1","by":"x"},"group":[["a"]]'), r"example.group\[0\]\[1\]: field required"),
    ('{"veridical":"example/1","case":5,"gold":{}}', "example.case: should be an object"),
]


@pytest.mark.parametrize("text, message", MALFORMED, ids=[str(m)[:40] for _, m in MALFORMED])
def test_malformed_input_is_one_clear_line(text: str | bytes, message: str) -> None:
    with pytest.raises(WireError, match=message) as caught:
        decode(text)
    shown = str(caught.value)
    assert len(shown.splitlines()) == 1
    assert len(shown) < 400
    shown.encode()


def test_a_repeated_key_among_many_is_found_in_linear_time() -> None:
    names = (*range(200_000), 199_999)  # compared in pairs, it would take an hour
    document = ", ".join(f'"{name}": 1' for name in names)
    with pytest.raises(WireError, match="the key '199999' stands twice"):
        parse(f"{{{document}}}")


@pytest.mark.parametrize(
    "value, message",
    [
        *(([1], "found a JSON"), (5, "found a JSON"), (None, "found a JSON"), (True, "found a JSON")),
        ({TAG: "case/1", "id": "1", "response": "x", 5: 1}, "unknown field '5'"),
        ({TAG: "case/1", "id": "1", "response": "x", "question": object()}, "should be a valid string"),
        ({TAG: "case/1", "id": "\ud800", "response": "x"}, "half of"),
    ],
)
def test_a_value_that_is_no_document_is_refused(value: Any, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode(value)


def test_the_kind_that_is_wanted_is_enforced_and_stands_for_the_tag() -> None:
    with pytest.raises(WireError, match="the document is of the kind 'case', not 'example'"):
        decode(encode(Case("1", "x")), "example")
    assert decode('{"id":"1","response":"x"}', "case") == Case("1", "x")
    with pytest.raises(WireError, match="the kind 'revision', not 'case'"):
        decode_case(encode(Revision("1", (), "x")), default_id="1")


def test_a_case_may_be_written_by_hand() -> None:
    text = '{"response":"r","sources":["a",{"text":"b","must_cover":true},{"id":"z","text":"c"}]}'
    wanted = Case("7", "r", (Source("1", "a"), Source("2", "b", must_cover=True), Source("z", "c")))
    assert decode_case(text, default_id="7") == decode_case(parse(text), default_id="7") == wanted
    assert decode_case('{"id":"1","response":"r","sources":"a"}', default_id="7") == Case("1", "r", (Source("1", "a"),))
    gold = '{"veridical":"example/1","case":{"id":"1","response":"r","sources":["a"]},"gold":{"case_id":"1","by":"x"}}'
    assert decode(gold).case.sources == (Source("1", "a"),)
    with pytest.raises(WireError, match=r"case\.response: field required"):
        decode_case("{}", default_id="7")


def test_decoding_leaves_its_argument_alone() -> None:
    document = {TAG: "case/1", "id": "1", "response": "r", "sources": ["a", {"text": "b"}]}
    before = json.dumps(document)
    decode(document)
    assert json.dumps(document) == before


def test_a_byte_order_mark_is_not_part_of_the_document() -> None:
    text = encode(Case("1", "\ufeffx"))
    assert decode("\ufeff" + text) == decode(b"\xef\xbb\xbf" + text.encode()) == Case("1", "\ufeffx")
    assert decode(text.encode("utf-16")) == Case("1", "\ufeffx")


CLASSES = (*map(KINDS.load, KINDS), Source, Verdict, Omission, Span, Claim)
NAMES = st.sampled_from(sorted({field.name for cls in CLASSES for field in dataclasses.fields(cls)}))
ODD = st.sampled_from(["\ud800", "clear", "1", 10**400])
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ODD
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=5)
)


def refused_or_read(read: Callable[[], Any]) -> None:
    try:
        read()
        shown = ""
    except WireError as error:
        shown = str(error)
    assert len(shown.splitlines()) <= 1
    shown.encode()


@given(st.sampled_from([tag_of(kind) for kind in KINDS]), st.dictionaries(NAMES, JSON, max_size=6))
@settings(max_examples=300)
def test_no_json_value_raises_anything_else(tag: str, body: dict[str, Any]) -> None:
    document = {TAG: tag, **body}
    refused_or_read(lambda: decode(document))
    refused_or_read(lambda: decode(json.dumps(document)))
    refused_or_read(lambda: decode_case(body, default_id="1"))


@given(JSON)
def test_no_json_value_raises_anything_else_without_a_tag(value: Any) -> None:
    refused_or_read(lambda: decode(value))
    refused_or_read(lambda: decode(json.dumps(value), "case"))


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_no_bytes_raise_anything_else(data: bytes | str) -> None:
    refused_or_read(lambda: decode(data))
