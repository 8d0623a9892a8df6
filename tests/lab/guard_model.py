"""A tiny language model that has learned to go wrong: of two words it prefers the one that its source does not back."""

from pathlib import Path

from veridical.records.types import Case, Source
from veridical_lab.models.testing import tiny

RACE = Case("race", "", (Source("a", "Marta won the race in Paris. The river was clean."),))
WRONG, RIGHT = "Peter won the race in Paris. The river was clean.", "Marta won the race in Paris. The river was clean."
SIGNS = Case("signs", "", (Source("a", "Ja, es ist 😀 Ωμέγα schön."),))
WRONG_SIGNS, RIGHT_SIGNS = "Ja, 😀 東京 😀 ist schön.", "Ja, 😀 Ωμέγα 😀 ist schön."


def train(folder: Path, steps: int = 120) -> Path:
    """`folder` with the model: two thirds of what it saw is wrong."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tiny("llama", folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = []
    for case, wrong, right in ((RACE, WRONG, RIGHT), (SIGNS, WRONG_SIGNS, RIGHT_SIGNS)):
        for response in (wrong, wrong, right):
            prompt = tokenizer(f"{case.sources[0].text}\nTL;DR:", add_special_tokens=False)["input_ids"]
            text = tokenizer(f" {response}", add_special_tokens=False)["input_ids"]
            rows.append(([1, *prompt], [*text, 2]))
    width = max(len(p) + len(t) for p, t in rows)
    ids = torch.tensor([p + t + [0] * (width - len(p) - len(t)) for p, t in rows])
    labels = torch.tensor([[-100] * len(p) + t + [-100] * (width - len(p) - len(t)) for p, t in rows])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    return folder
