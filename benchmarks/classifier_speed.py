"""Prompt tuning of a YES/NO classifier, beside `transformers.Trainer` on the same `peft` model: tokens a second.

    python benchmarks/classifier_speed.py --model FOLDER --data TOPICS [--steps 8] [--rounds 3] [--dtype bf16]

Both ways take the same steps on the same batches of the same model, from the same soft prompt; the Trainer computes the
usual loss of the label's tokens, with padding on the right, and neither logs nor saves anything. The two take turns;
a figure is the median over rounds of tokens (without padding) by processor seconds, a ratio the median of the rounds'
ratios. Prints one JSON row.
"""

from __future__ import annotations

import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from running import benchmark
from transformers import Trainer, TrainingArguments

from veridical.datasets.split import content_hash
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical_lab.bench.perspectives import training_sets
from veridical_lab.datasets.topics import read_topics
from veridical_lab.detectors.classifier.artifact import ClassifierSettings
from veridical_lab.detectors.classifier.network import ClassifierNetwork
from veridical_lab.detectors.classifier.presentation import EncodedPart, case_parts
from veridical_lab.models.adapters import with_soft_prompt

BATCH = 16


def ours(model: LocalModel, settings: ClassifierSettings, items: list[tuple[EncodedPart, bool]]) -> float:
    """The processor seconds of a pass over all items."""
    network = ClassifierNetwork(model, settings)
    optimiser = torch.optim.AdamW(network.parameters, lr=0.1)
    began = time.process_time()
    for at in range(0, len(items), BATCH):
        batch = items[at : at + BATCH]
        margins = network.margins([encoded for encoded, _ in batch])
        targets = torch.tensor([float(error) for _, error in batch], device=margins.device)
        torch.nn.functional.binary_cross_entropy_with_logits(margins, targets).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return time.process_time() - began


def theirs(model: LocalModel, settings: ClassifierSettings, items: list[tuple[EncodedPart, bool]]) -> float:
    """The same by the Trainer."""
    labels = ClassifierNetwork(model, settings).labels
    tuned = with_soft_prompt(model, settings.virtual_tokens, seed=0)
    rows = [(encoded.ids, labels[int(error)]) for encoded, error in items]
    texts = [{"input_ids": [*ids, *label], "labels": [-100] * len(ids) + list(label)} for ids, label in rows]

    def collate(batch: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in batch)
        padded: dict[str, list[list[int]]] = {"input_ids": [], "labels": [], "attention_mask": []}
        for row in batch:
            missing = width - len(row["input_ids"])
            padded["input_ids"].append(row["input_ids"] + [0] * missing)
            padded["labels"].append(row["labels"] + [-100] * missing)
            padded["attention_mask"].append([1] * len(row["input_ids"]) + [0] * missing)
        return {name: torch.tensor(values) for name, values in padded.items()}

    class InOrder(Trainer):
        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(texts)  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=BATCH, num_train_epochs=1, learning_rate=0.1,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
            use_cpu=model.device.type == "cpu", remove_unused_columns=False,
        )  # fmt: skip
        trainer = InOrder(model=tuned, args=arguments, train_dataset=texts, data_collator=collate)  # type: ignore[arg-type]
        began = time.process_time()
        trainer.train()
        return time.process_time() - began


@benchmark()
def main(
    *, model: str, data: str, steps: int = 8, rounds: int = 3, dtype: str = "bf16", unit: str = "part"
) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    loaded = load(model, dtype=dtype)
    settings = ClassifierSettings(task="coverage", unit=unit, labels=("yes", "no"))
    network = ClassifierNetwork(loaded, settings)
    items: list[tuple[EncodedPart, bool]] = []
    examples = training_sets(read_topics(data), "synth")["train"]
    for example in examples:
        omitted = {omission.source_id for omission in example.gold.omissions if omission.score}
        for part in case_parts(example.case, settings.task, settings.unit):
            encoded = network.encode(part)
            if not isinstance(encoded, str):
                items.append((encoded[0], bool(omitted) if part.source is None else part.source.id in omitted))
    items = items[: BATCH * steps]
    tokens = sum(len(encoded.ids) for encoded, _ in items)
    seconds: dict[str, list[float]] = {"ours": [], "trainer": []}
    for _ in range(rounds):
        seconds["ours"].append(ours(loaded, settings, items))
        seconds["trainer"].append(theirs(loaded, settings, items))
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["trainer"], strict=True)]
    yield {
        "what": "prompt tuning",
        "model": Path(model).name,
        "dtype": dtype,
        "unit": unit,
        "steps": steps,
        "rounds": rounds,
        "tokens": tokens,
        "data": f"perspectrum, synth, {content_hash(examples)[:16]}",
        "tokens_per_processor_second": {name: tokens / statistics.median(times) for name, times in seconds.items()},
        "times_faster_than_trainer": statistics.median(ratios),
        "ratios": ratios,
        "machine": f"{platform.machine()}, 1 thread",
    }


if __name__ == "__main__":
    main()
