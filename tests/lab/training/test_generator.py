"""Soft prompts that write answers: what is learned, that a folder gives the same again, and who reads it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.lab.corrupt.test_arguments import TOPICS
from veridical.datasets import read
from veridical.inference.local_model import LocalModel
from veridical.llm.connection import Connection
from veridical.llm.protocol import Failure, Message, Reply, Request
from veridical.models.load import load
from veridical.records.errors import DataError, InputError
from veridical.records.types import Case, Source
from veridical_lab.corrupt.argument_responses import composed
from veridical_lab.models.adapters import with_soft_prompt
from veridical_lab.models.testing import tiny
from veridical_lab.models.tuned import TunedChat, reads_bare_tasks, task_tokens
from veridical_lab.tasks.perspectives.answering import answer_cases
from veridical_lab.tasks.perspectives.task_format import read_target
from veridical_lab.training.generator import GeneratorTraining, answers_to_learn, task_texts, train_generator

FAST = GeneratorTraining(steps=20, warmup=2, batch=2, evaluate_every=10, validation_examples=2, per_topic=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("llama", tmp_path_factory.mktemp("base") / "llama", max_position_embeddings=4096), dtype="fp32")


@pytest.fixture(scope="module")
def generator(model: LocalModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    before = {name: weight.clone() for name, weight in model.model.state_dict().items()}
    lines: list[str] = []
    out = train_generator(model, TOPICS, FAST, out=tmp_path_factory.mktemp("out") / "g", progress=lines.append)
    assert all(torch.equal(weight, before[name]) for name, weight in model.model.state_dict().items())
    return out, lines


def test_what_is_written_is_what_is_read(model: LocalModel) -> None:
    example = next(composed(TOPICS, wording="same"))
    task, target = task_texts(example)
    assert json.loads(task)["con"] == [s.text for s in example.case.sources if s.perspective == "con"]
    passages = read_target(target, ["con", "pro"])
    assert not isinstance(passages, str)
    assert set(passages.response.split("\n\n")) == set(example.case.response.split("\n\n"))


def test_the_loss_falls(generator: tuple[Path, list[str]]) -> None:
    losses = [float(line.split("loss ")[1].split()[0]) for line in generator[1] if "validation answers" in line]
    assert len(losses) == 2
    assert losses[-1] < losses[0]


def test_it_writes_what_peft_writes(model: LocalModel, generator: tuple[Path, list[str]]) -> None:
    chat = TunedChat(generator[0])
    (reply,) = chat.chat([Request((Message("user", "{}"),), max_tokens=6, top_logprobs=0)])
    assert isinstance(reply, Reply)
    tuned = with_soft_prompt(model, 5, seed=0)
    with torch.no_grad():
        tuned.prompt_encoder["default"].embedding.weight.copy_(torch.from_numpy(chat.artifact.tensors["prompt"]))
    ids = task_tokens(model, "{}", range(0))
    logprobs = []
    for _ in reply.tokens or ():
        given = torch.tensor([ids])
        with torch.inference_mode():
            logits = tuned(input_ids=given, attention_mask=torch.ones_like(given)).logits[0, -1].log_softmax(-1)
        ids.append(int(logits.argmax()))
        logprobs.append(float(logits.max()))
    assert reply.tokens
    assert [token.logprob for token in reply.tokens] == pytest.approx(logprobs, abs=1e-4)
    assert TunedChat(generator[0]).chat([Request((Message("user", "{}"),), max_tokens=6, top_logprobs=0)]) == [reply]


def test_it_goes_on_from_a_given_text(model: LocalModel, generator: tuple[Path, list[str]]) -> None:
    virtual = range(1000, 1005)
    prefill = '{"introduction": "'
    with_text = task_tokens(model, "{}", virtual, prefill)
    alone = task_tokens(model, "{}", virtual)
    assert with_text[: len(alone)] == alone
    assert model.tokenizer.decode(with_text[len(alone) :]) == prefill
    request = Request((Message("user", "{}"),), max_tokens=6, prefill=prefill)
    (reply,) = TunedChat(generator[0]).chat([request])
    assert reply.usage.prompt_tokens == len(with_text)


def test_answers_get_the_bare_task(generator: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    chat = Connection(model=str(generator[0])).chat()
    assert reads_bare_tasks(chat)
    seen: list[Request] = []

    def record(self: TunedChat, requests: list[Request]) -> list[Reply | Failure]:
        seen.extend(requests)
        return [Reply('{"introduction": "Views differ.", "pro": "It is fast.", "con": "It is loud."}')]

    monkeypatch.setattr(TunedChat, "chat", record)
    case = Case("1", "", (Source("a", "It is fast.", "pro", True), Source("b", "It is loud.", "con", True)), "Fly?")
    ((_, answered),) = answer_cases(chat, [case])  # type: ignore[misc]
    assert seen[0].messages[0].content == '{"question": "Fly?", "pro": ["It is fast."], "con": ["It is loud."]}'
    assert answered.response == "It is fast.\n\nIt is loud."


def test_bad_input_is_said_in_a_line(generator: tuple[Path, list[str]], tmp_path: Path) -> None:
    encoder = load(tiny("bert", tmp_path / "bert"), dtype="fp32", kinds=("encoder",))
    with pytest.raises(InputError, match="is no decoder and cannot write"):
        train_generator(encoder, TOPICS, FAST, out=tmp_path / "none")
    small = load(tiny("llama", tmp_path / "small"), dtype="fp32")
    with pytest.raises(InputError, match="nothing to train or to validate on"):
        train_generator(small, TOPICS, FAST, out=tmp_path / "none")  # its answers do not fit
    (tmp_path / "copy").mkdir()
    for file in generator[0].iterdir():
        (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "copy" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match="damaged"):
        TunedChat(tmp_path / "copy")


def test_given_pairs_are_learned(model: LocalModel, tmp_path: Path) -> None:
    about = {
        "arguments": {"pro": ["Cars pollute."], "con": ["Shops lose customers."]},
        "hallucinated": [],
        "omitted": [],
    }
    rows = []
    for i in range(12):
        answer = f"They pollute.\n\nTrade falls in town {i}."
        response = f"Views differ.\n\n{answer}" if i % 2 else answer
        rows.append({**about, "question": f"Should town {i} ban cars?", "response": response, "id": str(i)})
    rows[0]["hallucinated"] = ["They pollute."]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pairs = list(read(f"procon:{tmp_path / 'pairs.jsonl'}"))
    assert [pair.case.id for pair in answers_to_learn(pairs)] == [str(i) for i in range(1, 12)]
    target = json.loads(task_texts(pairs[1])[1])
    assert target == {"introduction": "Views differ.", "pro": "They pollute.", "con": "Trade falls in town 1."}
    lines: list[str] = []
    out = train_generator(model, [], FAST, pairs=pairs, out=tmp_path / "g", progress=lines.append)
    assert "answers to train on" in lines[0]
    assert (out / "detector.json").exists()
    with pytest.raises(InputError, match="no answer is labelled"):
        answers_to_learn(pairs[:1])
    unlike = replace(pairs[1], case=replace(pairs[1].case, response="One. Two."))
    with pytest.raises(InputError, match="1 passages for 2 perspectives"):
        task_texts(unlike)
