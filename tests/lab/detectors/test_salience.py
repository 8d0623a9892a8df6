"""From gradients to words to scores: the formulas of the paper's appendix C, by hand and on tiny models."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.processes import LIMIT
from veridical.detectors import load_detector
from veridical.models.load import load
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Case, Judgement, Source, check_judgement, judged_source_spans
from veridical.text.segment import words
from veridical_lab.detectors.local import salience as module
from veridical_lab.detectors.local.salience import Salience
from veridical_lab.models.encode import Encoded, encode
from veridical_lab.models.testing import ENCODER_DECODERS, tiny

PRO = Source("p", "Trams are cheap.", "pro", True)
CON = Source("c", "Trams are loud. Wires look ugly.", "con", True)
CASE = Case("1", "Trams cost little, but wires look bad.", (PRO, CON), question="Are trams good?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("llama", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def detector(folder: Path) -> Salience:
    return Salience(folder, dtype="fp32")


def word(text: str, source: str) -> Span:
    return Span(source.index(text), source.index(text) + len(text))


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """A detector whose tokens and gradients are given: response "Cats sleep", sources of "a" and "b"."""

    def make(columns: list[list[float]], windows: int = 1, **options: Any) -> tuple[Salience, Case]:
        a, b = "Cats doze", "Dogs bark"
        case = Case("1", "Cats sleep", (Source("a", a, "pro", True), Source("b", b, "con", True)))
        # tokens: 0 begin, 1-2 "Ca" "ts", 3 "doze", 4 "Dogs", 5 "bark", then the response: 6 "Cats", 7 "sle", 8 "ep"
        places = [("a", Span(0, 2)), ("a", Span(2, 4)), ("a", word("doze", a)), ("b", word("Dogs", b))]
        places.append(("b", word("bark", b)))
        spans = (Span(0, 4), Span(5, 8), Span(8, 10))
        read = [
            Encoded(tuple(range(9)), 6, spans, tuple((i + 1, id_, s) for i, (id_, s) in enumerate(places)))
        ] * windows
        values = iter([np.array(columns, dtype=np.float32).T, np.zeros((9, 3), dtype=np.float32) + 1.0])
        monkeypatch.setattr(module, "encode", lambda *_, **__: read)
        monkeypatch.setattr(module, "salience", lambda *_, **__: next(values))
        return Salience(folder, **options), case

    return make


# what each token bears on the tokens "Cats", "sle", "ep" (square roots of shares of 100)
COLUMNS = [
    [math.sqrt(x) * (-1) ** i for i, x in enumerate(column)]
    for column in ([20, 10, 60, 5, 5, 0, 0, 0, 0], [50, 0, 0, 30, 0, 0, 20, 0, 0], [50, 0, 0, 10, 40, 0, 0, 0, 0])
]


def test_words_and_values_by_hand(fixed: Any) -> None:
    detector, case = fixed(COLUMNS)
    found = detector.map(case)
    assert [f"{w.text} {w.source_id}" for w in found.source_words] == ["Cats a", "doze a", "Dogs b", "bark b"]
    assert [w.text for w in found.response_words] == ["Cats", "sleep"]
    expected = [[0.6, 0.0], [0.05, 0.3], [0.05, 0.4], [0.0, 0.0]]
    assert found.values == pytest.approx(np.array(expected), abs=1e-6)


def spread(*shares: float) -> float:
    return -sum(s * math.log(s) for s in shares)


@pytest.mark.parametrize(
    ("options", "contribution", "attribution"),
    [
        ({}, [0.6, 0.3, 0.4, 0.0], [0.6, 0.4]),
        ({"aggregate": "sum"}, [0.6, 0.35, 0.45, 0.0], [0.7, 0.7]),
        (
            {"aggregate": "entropy"},
            [1.0, 1 - spread(1 / 7, 6 / 7) / math.log(2), 1 - spread(1 / 9, 8 / 9) / math.log(2), 0.0],
            [1 - spread(6 / 7, 0.5 / 7, 0.5 / 7) / math.log(4), 1 - spread(3 / 7, 4 / 7) / math.log(4)],
        ),
        # a word is supported if any window supports it; the second window's nine tokens bear alike on every token
        ({"windows": 2}, [0.6, 0.3, 0.4, 1 / 9], [0.6, 0.4]),
    ],
    ids=["max", "sum", "entropy", "windows"],
)
def test_contributions_and_attributions_by_hand(
    fixed: Any, options: dict[str, Any], contribution: list[float], attribution: list[float]
) -> None:
    detector, case = fixed(COLUMNS, **options)
    found = detector.map(case)
    assert found.contribution == pytest.approx(contribution, abs=1e-6)
    assert found.attribution == pytest.approx(attribution, abs=1e-6)


def test_scores_are_geometric_means_and_the_worst_perspective_by_hand(fixed: Any) -> None:
    detector, case = fixed(COLUMNS, mean="geometric")
    (judgement,) = detector.judge([case])
    assert judgement.hallucination == pytest.approx(1 - math.sqrt(0.6 * 0.4), abs=1e-6)
    assert judgement.omission == pytest.approx(1 - math.sqrt(0.4 * 1e-12), abs=1e-6)
    verdicts = {v.span.of(case.response): v.score for v in judgement.verdicts}
    assert verdicts == pytest.approx({"Cats": 0.4, "sleep": 0.6}, abs=1e-6)
    assert [o.source_id for o in judgement.omissions] == ["a", "a", "b", "b"]
    assert [o.score for o in judgement.omissions] == pytest.approx([0.4, 0.7, 0.6, 1.0], abs=1e-6)


def test_arithmetic_means_by_hand(fixed: Any) -> None:
    detector, case = fixed(COLUMNS, mean="arithmetic")
    (judgement,) = detector.judge([case])
    assert judgement.hallucination == pytest.approx(0.5, abs=1e-6)
    assert judgement.omission == pytest.approx(1 - 0.2, abs=1e-6)  # con, 0.2, not pro, 0.45


def test_evidence_is_the_most_salient_source_words(fixed: Any) -> None:
    detector, case = fixed(COLUMNS)
    (judgement,) = detector.judge([case])
    said = [
        [(case.source(e.source_id).text[e.span.start : e.span.end], round(e.weight, 6)) for e in v.evidence]
        for v in judgement.verdicts
    ]
    assert said == [[("Cats", 0.6), ("doze", 0.05), ("Dogs", 0.05)], [("Dogs", 0.4), ("doze", 0.3)]]


def test_gradients_that_are_not_finite_are_not_judged(fixed: Any) -> None:
    broken = [COLUMNS[0], COLUMNS[1], [math.nan] * 9]
    detector, case = fixed(broken)
    (judgement,) = detector.judge([case])
    assert [v.span.of(case.response) for v in judgement.verdicts] == ["Cats"]
    assert judgement.judged == (Span(0, 5),)
    assert judgement.hallucination == pytest.approx(0.4, abs=1e-6)
    assert "1 of 2 content words could not be judged" in judgement.notes


def test_nothing_finite_at_all_is_nothing_judged(fixed: Any) -> None:
    detector, case = fixed([[math.inf] * 9, [0.0] * 9, [math.nan] * 9])
    (judgement,) = detector.judge([case])
    assert (judgement.hallucination, judgement.omission, judgement.judged) == (None, None, ())
    assert not judgement.verdicts
    assert not judgement.omissions
    assert "2 of 2 content words could not be judged" in judgement.notes


def test_every_content_word_gets_a_score(detector: Salience) -> None:
    (judgement,) = detector.judge([CASE])
    check_judgement(CASE, judgement)
    assert [v.span.of(CASE.response) for v in judgement.verdicts] == [
        "Trams", "cost", "little", "wires", "look", "bad",
    ]  # fmt: skip
    omitted = [(o.source_id, o.span.of(CASE.source(o.source_id).text)) for o in judgement.omissions]
    assert omitted == [("p", "Trams"), ("p", "cheap"), *(("c", w) for w in ("Trams", "loud", "Wires", "look", "ugly"))]
    assert judgement.judged is None
    assert 0 < judgement.hallucination < 1


def test_the_map_agrees_with_the_gradients(detector: Salience) -> None:
    """One column again, from the model up, without any of the detector's code but its words."""
    model = load(detector.model, dtype="fp32")
    (window,) = encode(model, CASE, "general")
    found = detector.map(CASE)
    at = 1  # "cost"
    span = found.response_words[at].span
    best = np.zeros(len(found.source_words))
    net = transformers.AutoModelForCausalLM.from_pretrained(detector.model)
    for i, token in enumerate(window.spans):
        if token is None or not token.overlaps(span):
            continue
        t = window.response_start + i
        leaf = net.get_input_embeddings()(torch.tensor([window.ids[:t]])).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(net(inputs_embeds=leaf).logits[0, -1, window.ids[t]], leaf)
        shares = (gradient * leaf).sum(-1)[0].detach().numpy().astype(float) ** 2
        shares /= shares.sum()
        for token_i, id_, place in window.source_spans:
            for row, found_word in enumerate(found.source_words):
                if found_word.source_id == id_ and found_word.span.overlaps(place):
                    best[row] = max(best[row], shares[token_i])
    assert found.values[:, at] == pytest.approx(best, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("architecture", ENCODER_DECODERS)
def test_the_source_words_of_an_encoder_decoder_are_its_encoders(architecture: str, tmp_path: Path) -> None:
    """One column again, from the model up: shares of both sides, of which the source's words have the encoder's."""
    detector = Salience(tiny(architecture, tmp_path), dtype="fp32")
    model = load(tmp_path, dtype="fp32", kinds=("seq2seq",))
    case = Case("1", "A cat slept.", (Source("a", "The cat sat on mats.", must_cover=True),))
    (judgement,) = detector.judge([case])
    check_judgement(case, judgement)
    assert detector.fingerprint()["template"] == "bare"
    found = detector.map(case)
    said, above = model.tokenizer(case.response)["input_ids"][:-1], model.tokenizer("The cat sat on mats.")
    offsets = model.tokenizer(case.response, return_offsets_mapping=True)["offset_mapping"]
    places = model.tokenizer("The cat sat on mats.", return_offsets_mapping=True)["offset_mapping"]
    below = [model.model.config.decoder_start_token_id, *said]
    column = np.zeros(len(found.source_words))
    for t, (start, end) in enumerate(offsets):
        if not (start < 5 and end > 2):  # "cat"
            continue
        texts = (above["input_ids"], below[: t + 1])
        leaves = [model.model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_() for ids in texts]
        logits = model.model(inputs_embeds=leaves[0], decoder_inputs_embeds=leaves[1]).logits
        gradients = torch.autograd.grad(logits[0, -1, said[t]], leaves)
        shares = torch.cat([(g * e).sum(-1)[0] for g, e in zip(gradients, leaves, strict=True)]).detach().numpy() ** 2
        shares = shares / shares.sum()
        for i, (first, last) in enumerate(places):
            for row, word_ in enumerate(found.source_words):
                if first < word_.span.end and last > word_.span.start:
                    column[row] = max(column[row], shares[i])
    assert found.response_words[0].span == Span(2, 5)
    assert found.values[:, 0] == pytest.approx(column, rel=1e-3, abs=1e-7)
    assert column.max() > 0


def test_long_sources_of_an_encoder_decoder(tmp_path: Path) -> None:
    long = Source("a", " ".join(f"Day {i}: the dogs slept." for i in range(60)), must_cover=True)
    case = Case("1", "A cat slept.", (long,))
    (judgement,) = Salience(tiny("bart", tmp_path), dtype="fp32", max_tokens=200).judge([case])
    check_judgement(case, judgement)
    assert "were read in" in judgement.notes[0]
    assert len(judgement.omissions) == len([w for w in words(long.text) if w.of(long.text) != "the"])


def test_any_number_of_perspectives_and_none(detector: Salience) -> None:
    plain = Case("2", CASE.response, (Source("x", PRO.text), Source("y", CON.text)))
    (judgement,) = detector.judge([plain])
    assert judgement.omission is None
    assert not judgement.omissions
    assert judgement.verdicts
    three = Case("3", CASE.response, (PRO, CON, Source("t", "Buses are slow.", must_cover=True)))
    (judgement,) = detector.judge([three])
    by_source = {id_: [1 - o.score for o in judgement.omissions if o.source_id == id_] for id_ in ("p", "c", "t")}
    worst = min(math.exp(sum(map(math.log, values)) / len(values)) for values in by_source.values())
    assert judgement.omission == pytest.approx(1 - worst, abs=1e-6)


@pytest.mark.parametrize(
    "case, note",
    [
        (Case("n", "Trams."), "no sources to compare with"),
        (Case("e", "", (PRO,)), "the response has no content words"),
        (Case("s", "and the of", (PRO,)), "the response has no content words"),
        (Case("t", "Trams.", (Source("a", "and the", must_cover=True),)), "the sources have no content words"),
        (Case("w", "Trams " * 400, (PRO,)), "the model reads 256 at once"),
    ],
)
def test_what_cannot_be_judged_says_so(detector: Salience, case: Case, note: str) -> None:
    (judgement,) = detector.judge([case])
    assert (judgement.hallucination, judgement.omission, judgement.judged) == (None, None, ())
    assert note in " ".join(judgement.notes)
    with pytest.raises(CannotJudgeError, match=case.id):
        detector.map(case)


@pytest.mark.parametrize("prompt", ["Sum up: trams are dear.", "Of the and:"])
def test_sources_that_the_raw_prompt_lacks_are_nothing_to_compare_with(folder: Path, prompt: str) -> None:
    case = Case("1", "Trams cost little.", (PRO, Source("o", "Of the hill", "con", True)), prompt=prompt)
    (judgement,) = Salience(folder, dtype="fp32", template="raw").judge([case])
    assert (judgement.hallucination, judgement.omission, judgement.judged) == (None, None, ())
    assert (judgement.verdicts, judgement.omissions) == ((), ())
    assert "no word of the sources is in the prompt" in judgement.notes[0]


def test_a_source_without_content_words_is_left_out_of_coverage(detector: Salience) -> None:
    case = Case("1", "Trams cost little.", (PRO, Source("o", "of the", "con", True)))
    (judgement,) = detector.judge([case])
    assert judgement.omission is not None
    assert "source 'o' has no content words; its coverage was not judged" in judgement.notes


LONG = Source("l", " ".join(f"Fact {i} says that trams run along river {i}." for i in range(60)), must_cover=True)


def test_long_sources_are_read_in_windows(detector: Salience) -> None:
    case = Case("1", "Trams run along river 3.", (LONG,))
    (judgement,) = detector.judge([case])
    assert any("windows" in note for note in judgement.notes)
    assert {v.span.of(case.response) for v in judgement.verdicts} == {"Trams", "run", "along", "river", "3"}
    assert len(judgement.omissions) == len(detector.map(case).source_words)


def test_words_that_no_window_shows_are_no_omissions(folder: Path) -> None:
    case = Case("1", "Trams run along river 3.", (LONG,))
    some = Salience(folder, dtype="fp32", max_windows=1).judge([case])[0]
    whole = Salience(folder, dtype="fp32").judge([case])[0]
    assert 0 < len(some.omissions) < len(whole.omissions)
    assert any("only" in note and "words of source 'l' were read" in note for note in some.notes)
    assert whole.judged_sources is None
    judged = judged_source_spans(case, some)["l"]
    assert all(any(span.contains(o.span) for span in judged) for o in some.omissions)
    assert not any(o.span.overlaps(span) for o in whole.omissions[len(some.omissions) :] for span in judged)


def test_too_little_memory_takes_smaller_windows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.salience

    def small(model: Any, ids: Any, *rest: Any, **options: Any) -> np.ndarray:
        if len(ids) > 100:
            raise CannotJudgeError("too large")
        return real(model, ids, *rest, **options)

    monkeypatch.setattr(module, "salience", small)
    case = Case("1", "Trams run along river 3.", (LONG,))
    (judgement,) = Salience(folder, dtype="fp32").judge([case])
    assert judgement.judged is None
    assert any("too little memory" in note for note in judgement.notes)


def test_memory_that_never_suffices_is_not_judged(folder: Path) -> None:
    detector = Salience(folder, dtype="fp32", max_memory_mb=1)
    case = Case("1", "Trams run along river 3.", (LONG,))
    found: list[Judgement] = detector.judge([case])  # 1 MB does for some window, however small
    assert found[0].judged in (None, ())
    assert found[0].notes


_PEAKS = """
import json, re, sys
from pathlib import Path
import torch
from veridical.records.types import Case, Source
from veridical_lab.detectors.local.salience import Salience
from veridical_lab.models.testing import tiny

torch.set_num_threads(1)
folder = tiny(
    "llama", sys.argv[1], max_position_embeddings=8192, hidden_size=128, intermediate_size=512, num_hidden_layers=6
)
text = " ".join(f"Fact {i} says that trams run along river {i}." for i in range(134))
case = Case("1", "the cat", (Source("l", text),))
Salience(folder, dtype="fp32").judge([Case("0", "Trams.", (Source("l", "Trams run."),))])
# of this process alone: getrusage begins with the peak of the parent
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
found = []
for allowed in (40, 4000):
    before = peak()
    (judgement,) = Salience(folder, dtype="fp32", max_memory_mb=allowed).judge([case])
    found.append([peak() - before, judgement.hallucination, list(judgement.notes)])
print(json.dumps(found))
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the peak of memory is read from Linux's /proc")
def test_a_prompt_of_four_thousand_tokens_stays_within_the_memory_option(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", _PEAKS, str(tmp_path)], capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 0, run.stderr
    bounded, free = json.loads(run.stdout.splitlines()[-1])
    assert bounded[0] < 80  # MB; what is allowed, and some for all that is no activation
    assert free[0] > 120  # beyond that: without the option it takes several times as much
    assert bounded[1] is not None
    assert any("too little memory for" in note for note in bounded[2])
    assert free[2] == []


@pytest.mark.parametrize("architecture", ["gpt2", "gemma2", "qwen2"])
@pytest.mark.parametrize("tokenizer", ["bytes", "metaspace", "unigram"])
def test_architectures_and_tokenizers(architecture: str, tokenizer: Any, tmp_path: Path) -> None:
    where = tiny(architecture, tmp_path, tokenizer=tokenizer)
    case = Case("1", "\n Café 👩‍👧 naïve e\u0301t, river?", (Source("a", "The river, a café.", must_cover=True),))
    (judgement,) = Salience(where, dtype="fp32").judge([case])
    check_judgement(case, judgement)
    assert {"Café", "river"} <= {v.span.of(case.response) for v in judgement.verdicts}
    assert judgement.omission is not None


def test_options_by_name(folder: Path) -> None:
    spec = f"{folder},sum,l2,arithmetic,template=tldr,max_tokens=99,dtype=fp32"
    made = load_detector(f"salience:{spec}")
    assert (made.aggregate, made.kind, made.mean, made.template) == ("sum", "l2", "arithmetic", "tldr")
    assert (made.max_tokens, made.dtype, made.name) == (99, "fp32", f"salience:{spec}")


@pytest.mark.parametrize("wrong", ["max,sum", "maxx", "template", "template=nope", "max_tokens=0", "l2=1", "sum,sum"])
def test_wrong_options_are_refused(wrong: str) -> None:
    with pytest.raises(InputError):
        load_detector(f"salience:somewhere,{wrong}")


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="needs a model"):
        load_detector("salience")
    for option in ("aggregate", "mean", "kind", "dtype", "template"):
        with pytest.raises(UnknownNameError):
            Salience("somewhere", **{option: "x"})


def test_a_copied_word_rests_on_its_source(shared_models: Path) -> None:
    """A trained model: the words of a copied sentence rest on the same words, those of another text do not."""
    detector = Salience(shared_models / "reader-6m", template="tldr", dtype="fp32")
    text = "The prize of 1998 was won by Marta Kowalska, who lived near the harbour. It rained all day."
    copied = Case("c", "The prize of 1998 was won by Marta Kowalska.", (Source("a", text),))
    other = Case("o", "The prize of 1998 was won by Marta Kowalska.", (Source("a", "Cats sleep on warm stones."),))
    same, none = detector.judge([copied, other])
    assert same.hallucination < none.hallucination
    by_word = {v.span.of(copied.response): v for v in same.verdicts}
    assert by_word["Kowalska"].evidence[0].span.of(text) in ("Marta", "Kowalska")
