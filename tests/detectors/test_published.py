"""Published checkpoints by name or folder: LettuceDetect's form token by token, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from veridical.core.errors import InputError
from veridical.core.types import Case, Judgement, Source
from veridical.detectors import load_detector
from veridical.detectors.entailment.detector import Entailment
from veridical.detectors.tokens.detector import Tokens
from veridical_lab.models.testing import tiny

PASSAGES = ("The cat sat on the mat.", "Anna Berg led the study in 1998; it took 3 hours.")
ANSWERS = (
    "The cat slept in the house.",
    "It took 5 hours, and Anna Berg did not lead it!",
    'Dr. Berg said: "1,250 tonnes" in Paris.',
    "No",
)
QUESTION = "Who led the study?"


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token classifier; the tokens of the second begin with the blank before a word."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("published") / request.param
    named = {0: "supported", 1: "hallucinated"}
    kind: Any = "wordpiece" if request.param == "bert" else "bytes"
    tiny(request.param, folder, tokenizer=kind, head="TokenClassification", id2label=named, max_position_embeddings=512)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer.save_pretrained(folder)
    return folder


def merged(judgement: Judgement) -> list[tuple[int, int]]:
    """The runs of neighbouring tokens that are flagged."""
    spans: list[tuple[int, int]] = []
    open_span = False
    for verdict in judgement.verdicts:
        if verdict.score > 0.5:
            start = spans.pop()[0] if open_span else verdict.span.start
            spans.append((start, verdict.span.end))
        open_span = verdict.score > 0.5
    return spans


def trimmed(start: int, end: int, text: str) -> tuple[int, int]:
    """The characters without white space around them."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def characters(spans: list[tuple[int, int]], text: str) -> set[int]:
    """The characters in `spans` that are not white space."""
    return {i for start, end in spans for i in range(start, end) if not text[i].isspace()}


def case_of(answer: str, question: str | None = QUESTION) -> Case:
    return Case("1", answer, tuple(Source(str(i), text) for i, text in enumerate(PASSAGES)), question)


def prompt_of(question: str | None) -> str:
    numbered = "\n".join(f"passage {i}: {text}" for i, text in enumerate(PASSAGES, 1))
    if question is None:
        return f"Summarize the following text:\n{numbered}\noutput:"
    return (
        f"Briefly answer the following question:\n{question}\n"
        f"Bear in mind that your response should be strictly based on the following {len(PASSAGES)} passages:\n"
        f"{numbered}\nIn case the passages do not contain the necessary "
        'information to answer the question, please reply with: "Unable to answer based on given passages."\noutput:'
    )


def probabilities(folder: Path, question: str | None, answer: str) -> list[tuple[int, int, float]]:
    """(start, end, P(hallucinated)) of each token of the answer, from the checkpoint itself."""
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    count = len(tokenizer(answer, add_special_tokens=False)["input_ids"])
    pair = tokenizer(prompt_of(question), answer, return_offsets_mapping=True)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([pair["input_ids"]])).logits[0]
    scores = logits.softmax(-1)[-1 - count : -1, 1].tolist()
    offsets = pair["offset_mapping"][-1 - count : -1]
    spans = [(*trimmed(*offset, answer), score) for offset, score in zip(offsets, scores, strict=True)]
    return [(start, end, score) for start, end, score in spans if start < end]  # no blank by itself


@pytest.mark.parametrize("question", [QUESTION, None])
def test_its_prompt_and_its_probabilities(checkpoint: Path, question: str | None) -> None:
    detector = load_detector(f"hf:{checkpoint},dtype=fp32")
    assert isinstance(detector, Tokens)
    for answer in ANSWERS:
        (judgement,) = detector.judge([case_of(answer, question)])
        expected = probabilities(checkpoint, question, answer)
        found = [(v.span.start, v.span.end, v.score) for v in judgement.verdicts]
        assert [each[:2] for each in found] == [each[:2] for each in expected]
        assert [each[2] for each in found] == pytest.approx([each[2] for each in expected], abs=1e-5)


def test_leading_white_space_moves_no_span(checkpoint: Path) -> None:
    detector = load_detector(f"hf:{checkpoint},dtype=fp32")
    for answer in ANSWERS:
        padded = case_of(f"\n  {answer}")
        (judgement,) = detector.judge([padded])
        texts = [verdict.span.of(padded.response) for verdict in judgement.verdicts]
        assert all(text == text.strip() for text in texts)
        assert "".join(texts) == "".join(answer.split())


def test_spans_are_those_of_the_package(checkpoint: Path) -> None:
    inference = pytest.importorskip("lettucedetect.models.inference")
    peer = inference.HallucinationDetector(
        method="transformer", model_path=str(checkpoint), max_length=512, device="cpu"
    )
    detector = load_detector(f"hf:{checkpoint},dtype=fp32")
    flagged = 0
    for question in (QUESTION, None):
        for answer in ANSWERS:
            own = peer.predict(context=list(PASSAGES), answer=answer, question=question, output_format="spans")
            (judgement,) = detector.judge([case_of(answer, question)])
            theirs = [(span["start"], span["end"]) for span in own]
            assert characters(merged(judgement), answer) == characters(theirs, answer)
            if checkpoint.name == "bert":  # the other has tokens that are a blank, which open or close a span there
                assert merged(judgement) == theirs
            flagged += len(own)
            padded = f"  {answer}"
            shifted = peer.predict(context=list(PASSAGES), answer=padded, question=question, output_format="spans")
            (judgement,) = detector.judge([case_of(padded, question)])
            if checkpoint.name == "bert":  # its offsets leave out the white space before the first token
                assert merged(judgement) == [(span["start"] + 2, span["end"] + 2) for span in shifted]
    assert flagged


def test_labels_the_other_way_round(tmp_path: Path) -> None:
    folder = tiny("bert", tmp_path / "a", head="TokenClassification", id2label={0: "supported", 1: "hallucinated"})
    other = Path(shutil.copytree(folder, tmp_path / "b"))
    config = json.loads((other / "config.json").read_text("utf-8"))
    (other / "config.json").write_text(
        json.dumps(config | {"id2label": {"0": "HALLUCINATED", "1": "SUPPORTED"}}), "utf-8"
    )
    (one,) = load_detector(f"hf:{folder},dtype=fp32").judge([case_of(ANSWERS[0])])
    (two,) = load_detector(f"hf:{other},dtype=fp32").judge([case_of(ANSWERS[0])])
    scores = [[verdict.score for verdict in judgement.verdicts] for judgement in (one, two)]
    assert scores[0] == pytest.approx([1 - score for score in scores[1]], abs=1e-5)
    (other / "config.json").write_text(json.dumps(config | {"id2label": {"0": "O", "1": "PER"}}), "utf-8")
    with pytest.raises(InputError, match=r"called O, PER, .*labels=supported\|hallucinated"):
        load_detector(f"hf:{other}")
    assert load_detector(f"hf:{other},labels=supported|hallucinated")


def test_sequence_classifiers_and_what_is_refused(tmp_path: Path) -> None:
    nli = tiny(
        "bert", tmp_path / "nli", head="SequenceClassification", id2label={0: "ENTAIL", 1: "NEUTRAL", 2: "CONTRADICT"}
    )
    detector = load_detector(f"hf:{nli},form=summac,dtype=fp32")
    assert isinstance(detector, Entailment)
    assert detector.name == f"hf:{nli},form=summac,dtype=fp32"
    (judgement,) = detector.judge([case_of(ANSWERS[0])])
    assert judgement.by == detector.name
    with pytest.raises(InputError, match=r"is no classifier.*GPT2LMHeadModel"):
        load_detector(f"hf:{tiny('gpt2', tmp_path / 'gpt2')}")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "detector.json").write_text('{"veridical": "detector/1", "kind": "tokens"}', "utf-8")
    with pytest.raises(InputError, match="tokens:"):
        load_detector(f"hf:{tmp_path / 'own'}")
    with pytest.raises(InputError, match="hf needs a checkpoint"):
        load_detector("hf")


def test_a_hub_name_is_taken_from_the_cache_and_needs_a_network_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    place = tmp_path / "models--owner--name"
    commit = "0" * 40
    tiny("bert", place / "snapshots" / commit, head="SequenceClassification", id2label={0: "LABEL_0"})
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit, "utf-8")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    detector = load_detector("hf:owner/name,dtype=fp32")
    assert isinstance(detector, Entailment)
    assert detector.form.hypothesis == "response"  # one logit: HHEM's form
    with pytest.raises(
        InputError, match="there is no folder 'owner/other', and as a hub name it cannot be had"
    ) as caught:
        load_detector("hf:owner/other")
    assert "\n" not in str(caught.value)
