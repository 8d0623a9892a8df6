"""What a probe in the loop costs next to transformers' own `generate()`: same model, prompts, texts and machine.

    python benchmarks/guard_speed.py MODEL jsonl:FILE --detector probe:FOLDER --rows rows.jsonl

Greedy texts about documents of the test part; nothing is flagged. The ways take turns at each prompt, in processor time
per prompt: `generate()`; the same with the probe attached to it; `guard` with a `Guard` for this text alone; with one
for all texts, which does not read again what prompts begin with; and a probe session that is fed with the tokens of the
text as they come, which has the model read them itself. Reading the prompt counts, and judging the final text. `ratio`
is that to `generate()`, its median over prompts and rounds with the quartiles.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

import torch
from running import benchmark, without_folders

from veridical.datasets import read
from veridical.datasets.split import content_hash, split_by_document
from veridical.models.generation import end_token_ids
from veridical.records.types import Case
from veridical_lab.detectors.local.probe import Probe
from veridical_lab.guard import Guard, GuardOptions, Sampling
from veridical_lab.models.stepwise import prompt_of


@benchmark()
def main(
    model: str, data: str, *, detector: str, documents: int = 10, tokens: int = 40, rounds: int = 3
) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    examples = split_by_document(read(data))["test"]
    first = {example.document: example.case for example in reversed(examples)}
    cases = [replace(first[document], response="") for document in sorted(map(str, first))[:documents]]
    probe = Probe(detector.removeprefix("probe:"), model=model)
    loaded = probe.base()
    options = GuardOptions(threshold=1.0, sampling=Sampling(max_new_tokens=tokens))
    for_all = Guard(probe, loaded, options)

    def generated(case: Case) -> list[int]:
        prompt = torch.tensor([prompt_of(loaded, case, probe.settings.template, tokens).ids])
        ids = loaded.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=tokens
        )
        return [token for token in ids[0, prompt.shape[1] :].tolist() if token not in end_token_ids(loaded)]

    def attached(case: Case) -> list[int]:
        with probe.attach():
            return generated(case)

    def guarded(guarding: Guard, case: Case) -> str:
        result = guarding.generate(case)
        assert not result.interventions
        return result.text

    def streamed(case: Case) -> None:
        session = probe.stream(case)
        for token in ids:
            session.feed([token])
        session.finish()

    ways: dict[str, Callable[[Case], object]] = {
        "generate()": generated,
        "generate(), probe attached": attached,
        "guard": lambda case: guarded(Guard(probe, loaded, options), case),
        "guard, one for all texts": lambda case: guarded(for_all, case),
        "probe session": streamed,
    }
    for_all.generate(cases[-1])
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    lengths = []
    for _ in range(rounds):
        for case in cases:
            ids = generated(case)
            lengths.append(len(ids))
            texts = {loaded.tokenizer.decode(ids, skip_special_tokens=True).strip()}
            for way, call in ways.items():
                start = time.process_time()
                text = call(case)
                seconds[way].append(time.process_time() - start)
                if isinstance(text, str):
                    texts.add(text.strip())
            assert len(texts) == 1, texts
    for way, taken in seconds.items():
        ratios = [one / other for one, other in zip(taken, seconds["generate()"], strict=True)]
        yield {
            "what": way,
            "model": Path(model).name,
            "detector": without_folders(detector),
            "probes": probe.heads["token" if "token" in probe.heads else "response"].probes.kind,
            "data": f"{without_folders(data)}, test part, {content_hash(examples)[:16]}",
            "n": len(ratios),
            "prompts": len(cases),
            "tokens": round(mean(lengths), 1),
            "seconds": round(median(taken), 3),
            "ratio": round(median(ratios), 3),
            "quartiles": [round(value, 3) for value in quantiles(ratios, n=4)[::2]],
            "machine": f"{platform.machine()}, 1 of {os.cpu_count()} cores",
        }


if __name__ == "__main__":
    main()
