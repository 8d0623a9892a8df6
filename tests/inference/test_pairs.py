"""Pairs of prompt and response in windows, and the states that a backbone gives for them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridical.inference import pairs
from veridical.inference.heads import HeadSettings, PairHead, pool
from veridical.inference.local_model import LocalModel
from veridical.inference.pair_runner import PairRunner, row_length
from veridical.inference.pairs import PairEncoder, PairEncoding, PairSettings, Window
from veridical.inference.tokenization import token_ranges
from veridical.models.load import load
from veridical.models.torch_engine import TorchEngine
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.types import Case, Source
from veridical.text.segment import words
from veridical_lab.models.testing import ENCODERS, tiny
from veridical_lab.training.token_network import eager_attention, torch_head

SOURCE = "The committee met on Monday. The river should be cleaned before summer. Paris is the capital of France."
CASES = [
    Case(str(i), response, (Source("s", SOURCE),))
    for i, response in enumerate(["The committee met.", "Paris is in France; the dog slept.", "Mud lies in the river."])
]
LONG = " ".join(f"The dogs slept in the house number {i} near the lake." for i in range(60))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module", params=[*ENCODERS, "gpt2", "llama", "qwen2", "gemma3", "opt"])
def model(request: pytest.FixtureRequest, folders: Path) -> LocalModel:
    return load(tiny(request.param, folders / request.param), dtype="fp32", kinds=("causal", "encoder"))


@pytest.fixture(scope="module")
def bert(folders: Path) -> LocalModel:
    return load(tiny("bert", folders / "bert1", seed=1), dtype="fp32", kinds=("encoder",))


def windows_of(model: LocalModel, cases: list[Case], options: PairSettings | None = None) -> list[Window]:
    encoded = PairEncoder(model, options).encode(cases)
    assert all(isinstance(each, PairEncoding) for each in encoded)
    return [window for each in encoded if isinstance(each, PairEncoding) for window in each.windows]


@pytest.mark.parametrize("mode", ["offline", "online"])
@pytest.mark.parametrize("attention", ["full", "prefix"])
def test_states_do_not_depend_on_the_batch(model: LocalModel, mode: str, attention: str) -> None:
    windows = windows_of(model, CASES)
    runner = PairRunner(TorchEngine(model), mode, attention)
    assert len(runner.rows(windows)) == (1 if runner.shares_prompts else 3)
    together = runner.run(windows)
    for window, states in zip(windows, together, strict=True):
        (alone,) = runner.run([window])
        assert states.response.shape[0] == window.count
        np.testing.assert_allclose(states.response, alone.response, atol=1e-4)
        np.testing.assert_allclose(states.whole, alone.whole, atol=1e-4)


def test_states_in_training_are_those_in_use(model: LocalModel) -> None:
    windows = windows_of(model, CASES)
    runner = PairRunner(TorchEngine(model), attention="prefix")
    torch = pytest.importorskip("torch")
    engine = TorchEngine(model)
    batch = runner.lay([[windows[i] for i in row] for row in runner.rows(windows)])
    with torch.inference_mode():
        in_use = engine.forward(batch)
        with eager_attention(model, 288):
            in_training = engine.forward(batch)
    filled = torch.from_numpy(batch.filled)
    torch.testing.assert_close(in_training[filled], in_use[filled], atol=1e-4, rtol=1e-3)


def test_online_sees_only_what_is_left(model: LocalModel) -> None:
    window = windows_of(model, CASES)[1]
    other = window.ids.copy()
    other[window.start + window.count - 1] = window.ids[window.start]
    online, offline = PairRunner(TorchEngine(model), "online"), PairRunner(TorchEngine(model), "offline")
    for runner, unchanged in ((online, True), (offline, model.kind == "causal")):
        before, after = (runner.run([each])[0].response for each in (window, replace(window, ids=other)))
        assert np.allclose(before[:-1], after[:-1], atol=1e-5) == unchanged
        assert not np.allclose(before[-1], after[-1], atol=1e-3)


@pytest.mark.parametrize("architecture", ["bert", "mpnet", "llama"])
def test_in_bf16_states_are_nearly_the_same(folders: Path, architecture: str) -> None:
    folder = tiny(architecture, folders / f"{architecture}-bf16")
    exact, rounded = (load(folder, dtype=dtype, kinds=("causal", "encoder")) for dtype in ("fp32", "bf16"))
    windows = windows_of(exact, CASES)
    runners = (PairRunner(TorchEngine(model), "online") for model in (exact, rounded))
    pairs = zip(*(runner.run(windows) for runner in runners), strict=True)
    for a, b in pairs:
        assert np.abs(a.response - b.response).mean() < 0.05 * np.abs(a.response).max()


def test_a_prompt_is_read_once_for_all_responses_to_it(bert: LocalModel) -> None:
    windows = windows_of(bert, CASES * 4)
    prefix, full = PairRunner(TorchEngine(bert), attention="prefix"), PairRunner(TorchEngine(bert))
    assert len(prefix.rows(windows)) == 1
    assert len(full.rows(windows)) == 12


def test_evidence_is_what_shares_words_with_the_response(bert: LocalModel) -> None:
    source = LONG.replace("number 41 near the lake", "of Marta Kowalska in Paris")
    case = Case("1", "Marta Kowalska slept.", (Source("s", source),))
    (window,) = windows_of(bert, [case], PairSettings(max_tokens=96))
    assert len(window.ids) <= 96
    shown = bert.tokenizer.decode(window.ids[: window.start])
    assert "marta" in shown.replace(" ", "").lower()
    everything = windows_of(bert, [case], PairSettings(max_tokens=96, evidence="all"))
    assert len(everything) > 8
    seen = {int(token) for each in everything for token in each.ids}
    assert seen >= set(bert.tokenizer(source, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(
    ("response", "question", "told"),
    [
        ("It was closed in May.", "What became of the harbour?", "The harbour was dredged."),
        ("Häuser wurden bewacht.", None, "Des Nachts bewachten Hunde ein Häuschen."),
        ("猫在花园里", None, "花园里有猫。"),
    ],
)
def test_evidence_shares_words_with_the_question_and_parts_of_words_with_the_response(
    bert: LocalModel, response: str, question: str | None, told: str
) -> None:
    others = " ".join(f"It slept {i} in a sunny room." for i in range(40))
    text = f"{others} {told} {others}"
    case = Case("1", response, (Source("s", text),), question)
    encoder = PairEncoder(bert, PairSettings(max_tokens=64))
    (encoding,) = encoder.encode([case])
    assert isinstance(encoding, PairEncoding)
    prompt, (window,) = encoder._prompt(case), encoding.windows
    begin, end = prompt.pieces[40]
    shown, wanted = window.ids.tolist(), prompt.ids[begin:end].tolist()
    assert any(shown[i : i + len(wanted)] == wanted for i in range(len(shown)))


@pytest.mark.parametrize("separator", [", ", "\n"])
def test_the_last_records_of_a_long_result_are_evidence(bert: LocalModel, separator: str) -> None:
    records = [f'{{"city": "place {i}", "rain": {i}}}' for i in range(200)] + ['{"city": "Paris", "rain": 7}']
    case = Case("1", "It rained 7 mm in Paris.", (Source("s", f"[{separator.join(records)}]"),))
    (window,) = windows_of(bert, [case], PairSettings(max_tokens=128))
    assert "paris" in bert.tokenizer.decode(window.ids[: window.start]).replace(" ", "").lower()


def test_neighbouring_sentences_share_their_evidence(bert: LocalModel) -> None:
    rows = [f"| town {i} | {7 * i} people |" for i in range(300)]
    encoder = PairEncoder(bert, PairSettings(max_tokens=96, by_sentence=True))
    source = (Source("s", "\n".join(rows)),)
    (long,) = encoder.encode([Case("1", "\n".join(rows), source)], neighbours=True)
    (short,) = encoder.encode([Case("1", "\n".join(rows[:64]), source)], neighbours=True)
    (alone,) = encoder.encode([Case("1", "\n".join(rows[:64]), source)])
    assert isinstance(long, PairEncoding)
    assert isinstance(short, PairEncoding)
    assert isinstance(alone, PairEncoding)
    assert len(long.windows) == 300
    assert max(len(w.ids) for w in long.windows) <= 96

    def prompts(encoding: PairEncoding) -> int:
        return len({window.ids[: window.start].tobytes() for window in encoding.windows})

    assert prompts(long) <= 300 / 5
    assert prompts(short) <= -(-64 // 3) < prompts(alone)
    laid = PairRunner(TorchEngine(bert), attention="prefix").batches(long.windows)
    passes = [[long.windows[i] for i in row] for batch in laid for row in batch]
    assert sum(row_length(row) for row in passes) < sum(len(w.ids) for w in long.windows) / 2
    for window in long.windows:  # each row has the row of the source that it copies
        own = window.ids[window.start : window.start + window.count].tolist()
        shown = window.ids[: window.start].tolist()
        assert any(shown[i : i + len(own)] == own for i in range(len(shown)))


@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_a_long_prompt_is_tokenised_in_chunks_to_the_same_tokens(
    folders: Path, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny(architecture, folders / f"{architecture}-chunks"), dtype="fp32", kinds=("causal", "encoder"))
    source = f"{LONG} Naïve e\u0301clairs\u2028cost 1,250.5 pounds, don't they? {SOURCE}\n\n{LONG}"
    cases = [Case("1", "The committee paid 1,250 pounds.", (Source("s", source), Source("t", SOURCE)), "Who  paid?")]
    options = [PairSettings(max_tokens=96), PairSettings(max_tokens=96, evidence="all")]
    whole = [[window.ids.tolist() for window in windows_of(model, cases, each)] for each in options]
    monkeypatch.setattr("veridical.inference.pairs._CHUNK", 40)
    monkeypatch.setattr("veridical.inference.pairs._SIDE_BY_SIDE", 3)
    calls: list[int] = []
    tokenize = pairs.tokenize_texts
    monkeypatch.setattr(pairs, "tokenize_texts", lambda of, texts: calls.append(len(texts)) or tokenize(of, texts))
    assert [[window.ids.tolist() for window in windows_of(model, cases, each)] for each in options] == whole
    assert (max(calls) == 3) == (architecture == "bert")  # the other joins a word with the space before it


def test_evidence_does_not_depend_on_the_order_of_words(bert: LocalModel) -> None:
    """Sums of floats do, in the last digit, and pieces of equal relevance are many."""
    encoder = PairEncoder(bert, PairSettings(max_tokens=64))
    nouns = ["river", "mud", "summer", "house", "lake", "dogs"]
    elsewhere = " ".join(f"{noun.capitalize()} here." for i, noun in enumerate(nouns) for _ in range(i % 3))
    source = f"The river, mud and summer. The house, lake and dogs. {elsewhere} {'Fine weather. ' * 7}"
    prompt = encoder._prompt(Case("1", "x", (Source("s", source),)))
    orders = itertools.permutations(nouns)
    chosen = {tuple(encoder._evidence(prompt, [order], 50)[0].tolist()) for order in orders}
    assert len(chosen) == 1


def test_only_prompts_read_lately_are_kept(bert: LocalModel) -> None:
    encoder = PairEncoder(bert)
    encoder._prompts.most = 4 * len(LONG)
    for i in range(20):
        encoder.encode([Case("1", "The dogs slept.", (Source("s", f"{i}. {LONG}"),))])
    assert 1 < len(encoder._prompts) < 5


def test_a_long_response_is_read_in_parts_of_whole_sentences(bert: LocalModel) -> None:
    case = Case("1", LONG, (Source("s", SOURCE),))
    (encoding,) = PairEncoder(bert).encode([case])
    assert isinstance(encoding, PairEncoding)
    assert encoding.notes
    assert "parts" in encoding.notes[0]
    covered = [i for w in encoding.windows for i in range(w.first, w.first + w.count)]
    assert covered == list(range(len(encoding.spans)))
    for window in encoding.windows[1:]:
        before = encoding.spans[window.first - 1]
        assert before is not None
        assert LONG[before.start : before.end].endswith(".")


def test_evidence_chosen_for_a_group_is_the_same_for_all_of_it(bert: LocalModel) -> None:
    cases = [
        Case(f"{source} {i}", f"The dogs of house {i} slept near {source}.", (Source("s", f"{source}. {LONG}"),))
        for i in range(4)
        for source in map(str, range(70))  # more sources than are kept
    ]
    encoder = PairEncoder(bert, PairSettings(max_tokens=96))
    encoder._prompts.most = 10 * len(LONG)
    encodings = encoder.encode(cases, group=4)
    windows = [window for each in encodings if isinstance(each, PairEncoding) for window in each.windows]
    assert len(PairRunner(TorchEngine(bert), attention="prefix").rows(windows)) <= 70


def test_sentences_apart(bert: LocalModel) -> None:
    case = Case("1", "The committee met. Paris is big.", (Source("s", SOURCE),))
    windows = windows_of(bert, [case], PairSettings(by_sentence=True))
    assert len(windows) == 2
    assert windows[1].first == windows[0].count


def test_without_sources_nothing_of_them_is_shown(bert: LocalModel) -> None:
    bare = windows_of(bert, [replace(CASES[0], sources=())])
    hidden = windows_of(bert, CASES[:1], PairSettings(sources=False))
    assert hidden[0].ids.tolist() == bare[0].ids.tolist()


@pytest.mark.parametrize("response", ["", " \n ", "…!"])
def test_a_response_without_words_is_not_judged(bert: LocalModel, response: str) -> None:
    (encoding,) = PairEncoder(bert).encode([Case("1", response)])
    assert isinstance(encoding, CannotJudgeError)


def test_bad_settings_are_refused(bert: LocalModel) -> None:
    with pytest.raises(UnknownNameError):
        PairSettings(evidence="some")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_tokens is 4"):
        PairSettings(max_tokens=4)
    with pytest.raises(UnknownNameError):
        PairRunner(TorchEngine(bert), "sometimes")
    with pytest.raises(UnknownNameError):
        HeadSettings(pooling="min")  # type: ignore[arg-type]


@given(st.text(max_size=80))
@settings(deadline=None, max_examples=60)
def test_every_word_has_its_tokens(text: str) -> None:
    model = _bert()
    (encoding,) = PairEncoder(model).encode([Case("1", text, (Source("s", "It is."),))])
    if isinstance(encoding, CannotJudgeError):
        return
    units = words(text)
    for unit, (first, end) in zip(units, token_ranges(encoding.spans, units), strict=True):
        inside = {i for i, span in enumerate(encoding.spans) if span is not None and span.overlaps(unit)}
        assert inside <= set(range(first, end))
        assert all(s is None or s.overlaps(unit) or not len(s) for s in encoding.spans[first:end])


_made: list[LocalModel] = []


def _bert() -> LocalModel:
    if not _made:
        import tempfile

        _made.append(load(tiny("bert", tempfile.mkdtemp()), dtype="fp32", kinds=("encoder",)))
    return _made[0]


def test_pooling() -> None:
    states = np.array([[1.0, 5.0], [3.0, 1.0], [2.0, 2.0]], dtype=np.float32)
    assert pool(states, [(0, 2), (2, 3)], "max").tolist() == [[3.0, 5.0], [2.0, 2.0]]
    assert pool(states, [(0, 2), (2, 3)], "mean").tolist() == [[2.0, 3.0], [2.0, 2.0]]
    assert pool(states, [(0, 1), (2, 3)], "max").tolist() == [[1.0, 5.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    ("hidden", "whole", "whole_hidden"), [(0, "state", 0), (5, "state", 0), (5, "both", 0), (0, "both", 3)]
)
def test_the_head_in_numpy_is_the_one_in_torch(hidden: int, whole: str, whole_hidden: int) -> None:
    import torch

    contradiction = hidden > 0 or whole_hidden > 0
    form = HeadSettings("token", "mean", hidden, 2, contradiction, whole, whole_hidden)  # type: ignore[arg-type]
    module = torch_head(4, form, seed=3)
    head = PairHead(form, {name: t.detach().numpy() for name, t in module.state_dict().items()})
    assert {name: t.shape for name, t in head.tensors.items()} == form.shapes(4)
    rng = np.random.default_rng(0)
    states, features = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(3, 2)).astype(np.float32)
    rows = torch.from_numpy(np.concatenate([states, features], 1))
    means = [states.mean(0)] if whole == "both" else []
    read = torch.from_numpy(np.concatenate([states[0], *means, features[0]]))[None]
    units, pair, kind = module(rows, read)
    np.testing.assert_allclose(
        head.unit_logits(states, [(0, 1), (1, 2), (2, 3)], features), units.detach().numpy(), atol=1e-5
    )
    logits = head.whole_logits(states[0], states, features[0])
    assert logits[0] == pytest.approx(float(pair[0].detach()), abs=1e-5)
    if contradiction:
        assert logits[1] == pytest.approx(float(kind[0].detach()), abs=1e-5)
    else:
        assert np.isnan(logits[1])
        assert kind is None
