"""Files in the full format of HaDes, made up: a phrase is mostly hallucinated where it is a year."""

import json
import random
from pathlib import Path

_TEXT = (
    "the town of {place} lies near the river . it was founded in {year} by a group of settlers from {place} . "
    "its {thing} is known for {what} , which was built after the war and opened to the public in {year} ."
)
_PLACES = ("oslo", "madrid", "willesden", "fresno", "dorset", "norrland")
_THINGS = ("old bridge", "market hall", "church tower", "harbour")
_WHAT = ("its long walls", "a narrow gate", "the painted roof")


def write_hades(folder: Path, train: int = 300, *, labelled_test: bool = True, seed: int = 0) -> Path:
    """Write train.txt, valid.txt and test.txt (a fifth of `train` each for the last two) to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    for part, count in (("train", train), ("valid", train // 5), ("test", train // 5)):
        lines = []
        for i in range(count):
            fields = {"place": chance.choice(_PLACES), "year": str(chance.randint(1500, 2000))}
            fields |= {"thing": chance.choice(_THINGS), "what": chance.choice(_WHAT)}
            words = _TEXT.format(**fields).split()
            phrase = chance.choice(["year", "what", "thing"])
            target = fields[phrase].split()
            first = next(j for j in range(len(words)) if words[j : j + len(target)] == target)
            last = first + len(target) - 1
            words[first] = f"==={words[first]}"
            words[last] = f"{words[last]}==="
            hallucinated = (phrase == "year") != (chance.random() < 0.15)
            label = int(hallucinated) if part != "test" or labelled_test else -1
            row = {"replaced": " ".join(words), "replaced_ids": [first, last], "hallucination": label, "idx": i}
            lines.append(json.dumps(row) + "\n")
        (folder / f"{part}.txt").write_text("".join(lines), "utf-8")
    return folder
