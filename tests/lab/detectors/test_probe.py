import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.lab.probes.samples import WRONG, examples
from veridical.detectors import load_detector
from veridical.inference import template
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.records.errors import CannotJudgeError, DataError, InputError, UnknownNameError
from veridical.records.types import Case, Level, Source, Verdict, check_judgement
from veridical.testing import assert_detector_contract
from veridical.text.segment import words
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.models.encode import Encoded, encode
from veridical_lab.models.monitor import ProbeMonitor
from veridical_lab.models.runner import RequestedOutputs, Runner, RunnerResult
from veridical_lab.models.saving import save_artifact
from veridical_lab.models.testing import tiny
from veridical_lab.probes.options import ProbeOptions, TrainingConfig
from veridical_lab.probes.training import train_probe

SOURCE = Source("a", "The cat sat on the mat, and the dogs slept in the house.")
CASE = Case("1", "the cat and dogs 😀 slept\n\nin Paris near house.", (SOURCE,))
FAST = ProbeOptions("linear", learning_rates=(0.1, 0.03), batch_sizes=(16,), max_epochs=25)


@pytest.fixture(scope="module", params=["linear", "pooling"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("probe")
    model = load(tiny("llama", where / "model"), dtype="fp32")
    train_probe(
        model, examples(), TrainingConfig(replace(FAST, kind=request.param), template="tldr"), out=where / "probe"
    )
    return where / "probe"


@pytest.fixture
def probe(folder: Path) -> Probe:
    return Probe(folder)


def offline(probe: Probe, case: Case) -> dict[str, np.ndarray]:
    model = probe.base()
    (encoded,) = encode(model, case, "tldr")
    (result,) = Runner(model).run([encoded], RequestedOutputs(logprobs=False, sublayers=probe.sublayers))
    return {objective: head.score(result.hidden) for objective, head in probe.heads.items()}


def test_nothing_loads_before_it_is_needed() -> None:
    detector = Probe("./nowhere")
    assert detector.judge([]) == []
    assert detector.judge([Case("1", " ")])[0].judged == ()
    with pytest.raises(DataError, match=r"no detector\.json"):
        detector.judge([CASE])


def test_a_word_has_the_score_of_its_worst_token(probe: Probe) -> None:
    (judgement,) = probe.judge([CASE])
    check_judgement(CASE, judgement)
    scores = offline(probe, CASE)
    (encoded,) = encode(probe.base(), CASE, "tldr")
    assert [v.span for v in judgement.verdicts] == words(CASE.response)
    for verdict in judgement.verdicts:
        mine = [i for i, s in enumerate(encoded.spans) if s and s.overlaps(verdict.span)]
        assert verdict.score == pytest.approx(scores["token"][mine].max(), abs=1e-6)
    assert judgement.hallucination == pytest.approx(scores["response"][-1], abs=1e-6)
    assert judgement.judged is None
    assert judgement.by == probe.name


def test_it_finds_what_it_was_trained_to_find(probe: Probe) -> None:
    if probe.heads["token"].probes.kind == "pooling":
        pytest.skip("a mean over all before cannot point at a single word")
    case = Case("1", "the cat and dogs sat near Paris.", (Source("a", "The cat sat on the mat in the house."),))
    (judgement,) = probe.judge([case])
    flagged = {v.span.of(case.response) for v in judgement.verdicts if v.score >= probe.thresholds[Level.SPAN]}
    assert flagged == {"dogs", "Paris"}
    assert flagged < WRONG


def test_it_keeps_the_contract(folder: Path) -> None:
    assert_detector_contract(Probe(folder, max_windows=2))


def test_any_window_may_support_a_token(folder: Path) -> None:
    long = Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(60)))
    case = replace(CASE, sources=(long,))
    probe = Probe(folder, max_windows=3)
    made = encode(probe.base(), case, "tldr", max_windows=3)
    assert len(made) == 3
    results = list(Runner(probe.base()).run(made, RequestedOutputs(logprobs=False, sublayers=probe.sublayers)))
    lowest = np.min([probe.heads["token"].score(r.hidden) for r in results], 0)
    (judgement,) = probe.judge([case])
    top = max(lowest[i] for i, s in enumerate(made[0].spans) if s and s.overlaps(judgement.verdicts[1].span))
    assert judgement.verdicts[1].score == pytest.approx(top, abs=1e-6)
    (first,) = Probe(folder).judge([case])
    assert "were read" in first.notes[0]


def test_what_could_not_be_judged_is_told(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [CASE, Case("long", "The cat sat. " * 100, (SOURCE,)), Case("no sources", "the cat")]
    first, long, bare = probe.judge(cases)
    assert (long.hallucination, long.judged, long.verdicts) == (None, (), ())
    assert "the model reads 256 at once" in long.notes[0]
    assert first.hallucination is not None
    assert bare.hallucination is not None
    monkeypatch.setattr(Runner, "run", lambda self, encoded, want: [RunnerResult(failed="not finite") for _ in encoded])
    (judgement,) = probe.judge([CASE])
    assert (judgement.hallucination, judgement.judged, judgement.notes) == (None, (), ("not finite",))


def test_spec(folder: Path, tmp_path: Path) -> None:
    moved = folder.parent / "model"
    detector = load_detector(f"probe:{folder},model={moved},unit=token,dtype=fp32,max_windows=2,device=cpu")
    assert (detector.model, detector.unit, detector.max_windows) == (str(moved), "token", 2)
    assert detector.judge([CASE])[0].hallucination is not None
    with pytest.raises(InputError, match="needs a trained probe"):
        load_detector("probe")
    for argument, error, match in (
        (f"{folder},unit=line", UnknownNameError, "unit of probe"),
        (f"{folder},luck=1", UnknownNameError, "option of probe"),
        (f"{folder},max_windows=none", InputError, "whole number"),
        (str(tmp_path), DataError, "no detector"),
    ):
        with pytest.raises(error, match=match):
            load_detector(f"probe:{argument}")


def test_another_base_model_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"architecture differs \(llama, here gpt2\)"):
        Probe(folder, model=tiny("gpt2", tmp_path / "gpt2")).judge([CASE])
    with pytest.raises(InputError, match="weights differ"):
        Probe(folder, model=tiny("llama", tmp_path / "llama", seed=9)).judge([CASE])


def test_a_template_that_reads_otherwise_now(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(template.TEMPLATES, "tldr", template.Template("tldr", "{source}\nShort: {response}"))
    with pytest.raises(InputError, match=r"template 'tldr' is not the one"):
        Probe(folder).judge([CASE])


def test_a_base_model_that_moved(folder: Path, probe: Probe) -> None:
    artifact = probe.artifact
    moved = replace(artifact, base=replace(artifact.base, name="/no/such/folder"))
    probe.__dict__["_loaded"] = (moved, probe.settings, probe.heads)
    with pytest.raises(InputError, match=r"is not in '/no/such/folder' any more \(say where it is: .*model=FOLDER"):
        probe.judge([CASE])


def changed(folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of an artifact whose `detector.json` was changed."""
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    document = json.loads((copy / "detector.json").read_text("utf-8"))
    change(document)
    (copy / "detector.json").write_text(json.dumps(document), "utf-8")
    return copy


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda d: d["settings"].pop("heads"), r"settings\.heads: Field required"),
        (lambda d: d["settings"].pop("max_windows"), r"settings\.max_windows: Field required"),
        (lambda d: d["settings"].update(max_tokens="many"), r"settings\.max_tokens: Input should be a valid integer"),
        (lambda d: d["settings"].update(max_tokens=0), r"settings\.max_tokens is 0"),
        (lambda d: d["settings"].update(template="nosuch"), r"settings\.template is 'nosuch'.*tldr"),
        (lambda d: d["settings"].update(heads={}), r"settings\.heads is \[\]"),
        (lambda d: d["settings"].update(heads=[]), r"settings\.heads: Input should be an object"),
        (lambda d: d["settings"]["heads"].update(word=d["settings"]["heads"]["token"]), r"settings\.heads is .*'word'"),
        (lambda d: d["settings"]["heads"]["token"].pop("threshold"), r"heads\.token\.threshold: Field required"),
        (lambda d: d["settings"]["heads"]["token"].update(threshold=7), r"heads\.token\.threshold is 7"),
        (lambda d: d["settings"]["heads"]["token"].update(kind="cubic"), r"heads\.token\.kind is 'cubic'"),
        (lambda d: d["settings"]["heads"]["token"].update(sublayers=[0, 1]), "the token-level probes: .* do not fit"),
        (lambda d: d["settings"]["heads"]["token"].update(sublayers=[0, 1, 2, 9]), r"sublayer 9; .* 2 layers"),
        (lambda d: d["settings"]["heads"]["token"].update(sublayers="0"), r"token\.sublayers: Input should be"),
        (lambda d: d["settings"]["heads"]["token"].update(calibration={"kind": "platt"}), r"token\.calibration is"),
        (lambda d: d["base"].update(width=8), "the token-level probes need states of width 32"),
    ],
)
def test_a_damaged_description_is_one_line(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], match: str
) -> None:
    with pytest.raises(DataError, match=match) as caught:
        Probe(changed(folder, tmp_path, change)).judge([CASE])
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda t: t.pop("token.offset"), "the token-level probes: .* lack its projection or offset"),
        (lambda t: t.update({"token.extra": t["token.offset"]}), "the token-level probes: unexpected tensors"),
        (lambda t: t.update({"token.projection": t["token.offset"]}), "the token-level probes: "),
        (lambda t: t.update({"token.offset": t["token.offset"] * np.nan}), "token-level probes .* not finite"),
    ],
)
def test_damaged_weights_are_one_line(
    probe: Probe, tmp_path: Path, change: Callable[[dict[str, np.ndarray]], None], match: str
) -> None:
    tensors = dict(probe.artifact.tensors)
    change(tensors)
    save_artifact(replace(probe.artifact, tensors=tensors), tmp_path)
    with pytest.raises(DataError, match=match):
        Probe(tmp_path).judge([CASE])


def pieces(text: str, seed: int) -> Iterator[str]:
    random = np.random.default_rng(seed)
    at = 0
    while at < len(text):
        step = int(random.integers(1, 7))
        yield text[at : at + step]
        at += step


@pytest.mark.parametrize("seed", range(5))
def test_a_session_fed_with_text_equals_the_offline_scores(probe: Probe, seed: int) -> None:
    session = probe.stream(CASE, unit="word")
    verdicts: list[Verdict] = []
    for piece in pieces(CASE.response, seed):
        verdicts += session.feed(piece)
    assert len(verdicts) < len(words(CASE.response))
    verdicts += session.finish()
    for objective, scores in offline(probe, CASE).items():
        np.testing.assert_allclose(session.scores[objective], scores, atol=1e-5)
    (judgement,) = probe.judge([CASE])
    assert [v.span for v in verdicts] == [v.span for v in judgement.verdicts]
    assert [v.score for v in verdicts] == pytest.approx([v.score for v in judgement.verdicts], abs=1e-5)
    assert session.response_score == pytest.approx(judgement.hallucination, abs=1e-5)


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_session_fed_with_tokens_equals_the_offline_scores(probe: Probe, unit: str) -> None:
    (encoded,) = encode(probe.base(), CASE, "tldr")
    prompt, ids = encoded.ids[: encoded.response_start], encoded.ids[encoded.response_start :]
    session = probe.stream(CASE, unit=unit, prompt_ids=prompt)
    verdicts: list[Verdict] = []
    at_once = 0
    for i in ids:
        new = session.feed([i])
        at_once += bool(new)
        verdicts += new
    verdicts += session.finish()
    assert session.text.strip() == CASE.response
    for objective, scores in offline(probe, CASE).items():
        np.testing.assert_allclose(session.scores[objective], scores, atol=1e-5)
    shift = len(session.text) - len(session.text.lstrip())
    (judgement,) = Probe(probe.path, unit=unit).judge([CASE])
    assert [v.span.shift(-shift) for v in verdicts] == [v.span for v in judgement.verdicts]
    assert [v.score for v in verdicts] == pytest.approx([v.score for v in judgement.verdicts], abs=1e-5)
    if unit == "token":
        assert at_once >= len(judgement.verdicts) - 1


def test_many_tokens_at_once_are_the_same(probe: Probe) -> None:
    (encoded,) = encode(probe.base(), CASE, "tldr")
    session = probe.stream(CASE, prompt_ids=encoded.ids[: encoded.response_start])
    session.feed(encoded.ids[encoded.response_start :])
    np.testing.assert_allclose(session.scores["token"], offline(probe, CASE)["token"], atol=1e-5)


def test_a_session_without_a_prompt_of_its_own(probe: Probe) -> None:
    session = probe.stream(CASE)
    session.feed(encode(probe.base(), Case("1", " the dogs"), "plain")[0].ids[1:])
    assert session.text == " the dogs"
    with pytest.raises(InputError, match="was fed tokens and then text"):
        session.feed("and")


def test_nothing_was_written(probe: Probe) -> None:
    session = probe.stream(CASE)
    assert session.finish() == []
    assert session.feed("") == []
    assert session.feed("  ") == []
    assert session.response_score is None
    assert session.finish() == []


def test_a_full_context(probe: Probe) -> None:
    session = probe.stream(CASE, prompt_ids=[1, 5, 6])
    with pytest.raises(CannotJudgeError, match="the model reads 256 at once"):
        session.feed([7] * 300)


def generate(model: LocalModel, ids: list[list[int]], **options: object) -> torch.Tensor:
    given = torch.tensor(ids)
    return model.model.generate(  # type: ignore[no-any-return]
        input_ids=given, attention_mask=torch.ones_like(given), do_sample=False, pad_token_id=0, eos_token_id=None,
        **options,
    )  # fmt: skip


def test_attached_to_generate_equals_the_offline_scores(probe: Probe) -> None:
    model = probe.base()
    prompts = [[1, 10, 11, 12], [1, 40, 41, 42]]
    with probe.attach(batch=2) as live:
        made = generate(model, prompts, max_new_tokens=12)
    assert live.scores["token"].shape == (11, 2), "the last token drawn was not read"
    want = RequestedOutputs(logprobs=False, sublayers=probe.sublayers)
    for row in range(2):
        ids = tuple(made[row].tolist())
        (result,) = Runner(model).run([Encoded(ids, 4, (None,) * (len(ids) - 4))], want)
        for objective, head in probe.heads.items():
            np.testing.assert_allclose(live.scores[objective][:, row], head.score(result.hidden)[:-1], atol=1e-5)
    before = live.scores["token"].copy()
    generate(model, prompts, max_new_tokens=3)
    np.testing.assert_array_equal(live.scores["token"], before)


def test_generation_is_the_same_with_a_probe_listening(probe: Probe) -> None:
    model = probe.base()
    alone = generate(model, [[1, 10, 11]], max_new_tokens=20)
    with probe.attach():
        assert torch.equal(generate(model, [[1, 10, 11]], max_new_tokens=20), alone)


def test_generation_stops_at_a_threshold(probe: Probe) -> None:
    model = probe.base()
    with probe.attach() as live:
        generate(model, [[1, 10, 11]], max_new_tokens=30)
    scores = live.scores["token"][:, 0]
    threshold = float(np.sort(scores)[-3])
    first = int(np.argmax(scores >= threshold))
    with probe.attach() as live:
        made = generate(model, [[1, 10, 11]], max_new_tokens=30, stopping_criteria=[live.stop_above(threshold)])
    assert len(live.scores["token"]) == first + 1
    assert made.shape[1] <= 3 + first + 2
    with probe.attach() as live, pytest.raises(InputError, match="no word-level probes"):
        live.stop_above(0.5, "word")


def test_the_monitor_in_any_loop(probe: Probe) -> None:
    model = probe.base()
    (encoded,) = encode(model, CASE, "tldr")
    (result,) = Runner(model).run([encoded], RequestedOutputs(logprobs=False, sublayers=probe.sublayers))
    monitor = ProbeMonitor(probe.heads)
    states = torch.from_numpy(np.stack([result.hidden[s] for s in monitor.sublayers]))
    scores = [monitor.step(states[:, None, t])["token"][0] for t in range(states.shape[1])]
    np.testing.assert_allclose(scores, offline(probe, CASE)["token"], atol=1e-5)
    with pytest.raises(CannotJudgeError, match="not finite"):
        monitor.step(states[:, None, 0] * float("nan"))
    with pytest.raises(InputError, match="cannot go back"):
        monitor.rewind(1)


def test_a_monitor_goes_back_to_any_token(probe: Probe) -> None:
    monitor = ProbeMonitor(probe.heads, batch=2, rewindable=True)
    random = torch.Generator().manual_seed(0)
    states = torch.randn(12, len(monitor.sublayers), 2, 32, generator=random)
    for state in states:
        monitor.step(state)
    scores = monitor.scores
    for count in (9, 9, 4, 0):
        monitor.rewind(count)
        assert len(monitor) == count
        for state in states[count:]:
            monitor.step(state)
        for objective, expected in scores.items():
            np.testing.assert_array_equal(monitor.scores[objective], expected)


def test_no_hook_is_left_behind_if_one_cannot_be_set(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    model = probe.base().model

    def hooks() -> int:
        return sum(len(module._forward_hooks) for module in model.modules())

    def refuse(hook: object) -> None:
        raise RuntimeError("no more hooks")

    before = hooks()
    monkeypatch.setattr(model.base_model, "register_forward_hook", refuse)
    with pytest.raises(RuntimeError, match="no more hooks"), probe.attach():
        pass
    assert hooks() == before
