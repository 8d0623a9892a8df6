import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from veridical.detectors import load_detector
from veridical.inference.local_model import LocalModel
from veridical.models.load import load, unload
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Judgement, Source, check_judgement
from veridical.text.segment import words
from veridical_lab.detectors.align import encoding, reader
from veridical_lab.detectors.align.detector import Align, _grouped, match_scores
from veridical_lab.detectors.align.encoding import encode_texts, windows_of
from veridical_lab.detectors.align.similarity import best_matches
from veridical_lab.models.testing import tiny

LONG = " ".join(f"The cat sat on mat {i}, and {i + 3} dogs slept in the house near Paris." for i in range(60))
SOURCE = Source("a", "The cat sat on the mat. In 2019 Anna Berg met 1,200 dogs near the lake.", must_cover=True)
CASE = Case("1", "The cat slept near 1200 dogs in 2020, said Bob.", (SOURCE,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalModel:
    return load(folder, dtype="fp32", device="cpu", kinds=("encoder",))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the model has read so far."""
    seen: list[str] = []

    def spy(model: LocalModel, texts: list[str], *rest: object, **options: object) -> object:
        seen.extend(texts)
        return encode_texts(model, texts, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "encode_texts", spy)
    return seen


def judge(folder: Path, case: Case = CASE, **options: object) -> Judgement:
    (judgement,) = Align(folder, dtype="fp32", **options).judge([case])  # type: ignore[arg-type]
    check_judgement(case, judgement)
    return judgement


@given(st.integers(0, 900), st.integers(1, 200))
def test_each_token_is_taken_from_the_window_with_most_context(count: int, size: int) -> None:
    windows = windows_of(count, size)
    assert [t for w in windows for t in range(w.first, w.last)] == list(range(count))
    assert all(0 <= w.start <= w.first and w.last <= w.end <= count and w.end - w.start <= size for w in windows)
    for w in windows[:: max(1, len(windows) // 5)]:
        for token in {w.first, (w.first + w.last) // 2, w.last - 1} - {w.last}:

            def context(other: encoding.AlignWindow, token: int = token) -> float:
                left = np.inf if other.start == 0 else token - other.start
                right = np.inf if other.end == count else other.end - 1 - token
                return min(left, right) if other.start <= token < other.end else -1

            assert context(w) >= max(context(other) for other in windows) - 1
    if size >= 8:
        assert all(b.start < a.end for a, b in pairwise(windows))
        assert sum(w.end - w.start for w in windows) <= 1.6 * count + size  # linear


@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_best_matches_are_those_of_the_whole_matrix(rows: int, columns: int, block: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal((n, 5)).astype(np.float32) for n in (rows, columns))
    a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (a, b))
    rows_allowed, columns_allowed = random.random(rows) < 0.7, random.random(columns) < 0.7
    allowed = {"rows_allowed": rows_allowed, "columns_allowed": columns_allowed}
    found = best_matches(torch.from_numpy(a), torch.from_numpy(b), **allowed, k=3, block=block)
    matrix = a @ b.T
    for i in range(rows):
        order = [j for j in np.argsort(-matrix[i]) if columns_allowed[j]][:3]
        assert found.columns[i].tolist() == order + [-1] * (3 - len(order))
        np.testing.assert_allclose(found.cosines[i, : len(order)], matrix[i, order], atol=1e-5)
    for j in range(columns):
        others = [i for i in range(rows) if rows_allowed[i]]
        best = max(others, key=lambda i, j=j: matrix[i, j]) if others else -1  # type: ignore[misc]
        assert found.rows[j] == best


def test_windows_and_batches_change_nothing(model: LocalModel) -> None:
    texts = ["The cat sat.", LONG, "", "Paris", LONG[:300]]
    for layer in (1, 2):
        together = encode_texts(model, texts, layer, window=64)
        for text, found in zip(texts, together, strict=True):
            (alone,) = encode_texts(model, [text], layer, window=64)
            assert alone.states.shape == (len(alone.ids), 32)
            np.testing.assert_allclose(found.states, alone.states, atol=1e-4)
            np.testing.assert_array_equal(found.offsets, alone.offsets)
            np.testing.assert_allclose(np.linalg.norm(alone.states, axis=-1), 1.0, atol=1e-5)
    ids = model.tokenizer("The cat sat.")["input_ids"]
    own = model.model(torch.tensor([ids])).last_hidden_state[0, 1:-1]
    np.testing.assert_allclose(together[0].states, torch.nn.functional.normalize(own, dim=-1), atol=1e-5)
    with pytest.raises(InputError, match="has no room"):
        encode_texts(model, ["a"], 1, window=2)


def test_the_latest_sources_stay_in_memory(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = reader.AlignReader(model, 2)
    kept.read(["The cat sat."])
    monkeypatch.setattr(reader, "_MEMORY", kept.read(["The dog ran."])["The dog ran."].size)
    kept.read(["The dog ran."])
    assert list(kept._recent) == ["The dog ran."]


def test_every_word_has_a_score_its_evidence_and_numbers_by_value(folder: Path) -> None:
    judgement = judge(folder)
    found = {v.span.of(CASE.response): v for v in judgement.verdicts}
    assert list(found) == [span.of(CASE.response) for span in words(CASE.response)]
    for verdict in judgement.verdicts:
        assert 1 <= len(verdict.evidence) <= 3
        assert all(e.source_id == "a" and e.span in words(SOURCE.text) for e in verdict.evidence)
        weights = [e.weight for e in verdict.evidence]
        assert weights == sorted(weights, reverse=True)
    assert found["1200"].score == 0.0
    assert (found["2020"].score, found["2020"].reason) == (1.0, "the sources have no such number")
    assert (found["Bob"].score, found["Bob"].reason) == (1.0, "the sources have no such name")
    plain = {v.span.of(CASE.response): v for v in judge(folder, values=False).verdicts}
    assert plain["1200"].score > 0
    assert plain["cat"].score == found["cat"].score
    assert judgement.hallucination == pytest.approx(
        np.mean([found[w].score for w in ("cat", "slept", "near", "1200", "dogs", "2020", "said", "Bob")])
    )


def test_a_response_that_repeats_its_source_is_supported(folder: Path) -> None:
    judgement = judge(folder, Case("1", SOURCE.text, (SOURCE,)))
    assert max(v.score for v in judgement.verdicts) < 1e-3
    assert judgement.hallucination == pytest.approx(0.0, abs=1e-3)
    assert judgement.omission == pytest.approx(0.0, abs=1e-3)


def test_omissions_are_the_matrix_read_the_other_way(folder: Path) -> None:
    response = Source("r", CASE.response)
    judgement, turned = judge(folder), judge(folder, Case("1", SOURCE.text, (response,)))
    assert [(o.span, o.score) for o in judgement.omissions] == [(v.span, v.score) for v in turned.verdicts]
    assert judgement.omission == turned.hallucination
    two = (Source("p", SOURCE.text, "pro", True), Source("c", "Nothing of the sort in 1998.", "con", True))
    both = judge(folder, Case("1", CASE.response, two))
    assert both.omission >= judgement.omission  # the worst perspective counts
    alone = judge(folder, Case("1", CASE.response, two[1:]))
    assert both.omission == alone.omission


def test_a_word_is_supported_by_whichever_source_has_it(folder: Path) -> None:
    other = Source("b", "Bob left in 2020.")
    judgement = judge(folder, Case("1", CASE.response, (SOURCE, other)))
    found = {v.span.of(CASE.response): v for v in judgement.verdicts}
    assert found["2020"].reason is None
    for before, after in zip(judge(folder, values=False).verdicts, judgement.verdicts, strict=True):
        if after.reason is None and after.span.of(CASE.response) not in ("1200", "2020"):
            assert after.score <= before.score + 1e-6
    repeated = judge(folder, Case("1", other.text, (SOURCE, other)))
    assert {v.evidence[0].source_id for v in repeated.verdicts} == {"b"}
    assert max(v.score for v in repeated.verdicts) < 1e-3


def test_rare_words_count_more_with_idf(folder: Path) -> None:
    source = Source("a", "The cat sat. The cat ran. The cat slept. The cat met Anna.")
    case = Case("1", f"{source.text} Bob.", (source,))  # "cat" is in each sentence, "Bob" in none
    plain, weighted = judge(folder, case), judge(folder, case, idf=True)
    assert plain.verdicts == weighted.verdicts
    assert 0 < plain.hallucination < weighted.hallucination < 1


def test_an_empty_response_covers_nothing(folder: Path) -> None:
    judgement = judge(folder, Case("1", " \n", (SOURCE,)))
    assert judgement.hallucination is None
    assert judgement.judged == ()
    assert judgement.omission == 1.0
    assert [o.span for o in judgement.omissions] == words(SOURCE.text)


def test_a_source_is_read_once_for_many_responses(folder: Path, encoded: list[str]) -> None:
    cases = [Case(str(i), f"The dogs slept near house {i}.", (Source("a", LONG),)) for i in range(50)]
    detector = Align(folder, dtype="fp32", window=64)
    for at in range(0, 50, 10):
        detector.judge(cases[at : at + 10])
    assert encoded.count(LONG) == 1
    assert len(encoded) == 1 + 50 + len(reader._UNRELATED)


def test_cases_are_grouped_by_their_different_texts() -> None:
    shared = Source("a", "x" * 100)
    cases = [Case(str(i), "y" * 9 + str(i), (shared,)) for i in range(10)]
    assert [len(group) for group in _grouped(cases, 130)] == [3, 3, 3, 1]
    assert [len(group) for group in _grouped(cases, 10)] == [1] * 10


def test_the_score_falls_with_the_cosine(folder: Path) -> None:
    detector = Align(folder, dtype="fp32")
    (found,) = detector.reader.match([CASE])
    low, high = (match_scores(found.response, baseline, values=False) for baseline in (0.0, 0.9))
    assert (low <= high).all()
    assert ((low >= 0) & (high <= 1)).all()
    order = np.argsort(found.response.cosine)
    assert (np.diff(low[order]) <= 1e-12).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("align", "align needs an encoder"),
        ("align:FOLDER,layers=2", "layers"),
        ("align:FOLDER,dtype=int8", "dtype of align"),
        ("align:FOLDER,idf=perhaps", "idf of align"),
        ("align:FOLDER,layer=0", "a whole number from 1"),
        ("align:FOLDER,model=x", "model"),
    ],
)
def test_specs_that_are_refused(folder: Path, spec: str, message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        load_detector(spec.replace("FOLDER", str(folder)))


def test_what_cannot_encode_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a decoder .*an encoder is needed here"):
        judge(tiny("llama", tmp_path / "llama"))
    with pytest.raises(InputError, match="has no layer 3"):
        judge(folder, layer=3)
    with pytest.raises(InputError, match="no model folder"):
        judge(tmp_path / "nothing")
    broken = tiny("bert", tmp_path / "broken")
    config = json.loads((broken / "tokenizer_config.json").read_text("utf-8"))
    (broken / "tokenizer.json").unlink()
    (broken / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(InputError):  # a tokenizer without offsets is none here
        judge(broken)


def test_numbers_that_are_not_finite_are_not_judged(folder: Path, tmp_path: Path) -> None:
    broken = tiny("bert", tmp_path / "nan")
    weights = load_file(broken / "model.safetensors")
    name = next(n for n in weights if "layer.1.output.dense.weight" in n)
    detector = Align(broken, dtype="fp32")
    assert detector.baseline < 1.0  # found before the model breaks
    weights[name] = weights[name] * float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    unload(detector.reader.model)
    detector.reader.model = load(broken, dtype="fp32", kinds=("encoder",))
    (judgement,) = detector.judge([CASE])
    assert judgement.hallucination is None
    assert judgement.omission is None
    assert judgement.judged == ()
    assert judgement.judged_sources == ()
    assert "not finite" in judgement.notes[0]
