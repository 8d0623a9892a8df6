"""What `limits_of` notices on labelled sets, what it notices without cause, and what that takes.

    python benchmarks/scope.py ../shared/data [DJANGO]

One JSON row per language of Mu-SHROOM (its answers as they are), per language of the messages of Django's translations
(8 words or more; DJANGO is its folder), per English set and set of tables, and for the modules of Python's own library
as responses. Milliseconds are processor time per case.
"""

from __future__ import annotations

import json
import re
import statistics
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from running import benchmark

from veridical.datasets import read
from veridical.detectors.scope import _look, limits_of
from veridical.records.types import Case
from veridical.text.languages import LANGUAGES, language_of
from veridical.text.segment import words

ENGLISH = ("xsum_token", "summedits", "conv_fever", "begin", "e2e", "wice", "bump")
PAIRS = ("snli", "boolq", "wow_q2", "infotabs", "tabfact", "logicnlg", "rotowire_errors")
MOST = 5000
SAME = {"nn": "nb", "bs": "hr", "sr_Latn": "hr", "ms": "id", "zh_Hans": "zh", "zh_Hant": "zh"}  # closest that is known


def languages(name: str, code: str, texts: Sequence[str]) -> dict[str, object]:
    found = Counter(language_of(text) for text in texts)
    wrong = {other: count for other, count in found.most_common() if other not in (code, None)}
    return {
        "benchmark": name,
        "language": code,
        "texts": len(texts),
        "median_words": statistics.median(len(words(text)) for text in texts),
        "right": round(found[code] / len(texts), 3),
        "undecided": round(found[None] / len(texts), 3),
        "taken_for_english": 0 if code == "en" else round(found["en"] / len(texts), 3),
        "wrong": wrong,
    }


def limits(name: str, cases: Sequence[Case]) -> dict[str, object]:
    _look.cache_clear()
    start = time.process_time()
    found = [limits_of(case) for case in cases]
    seconds = time.process_time() - start
    kinds = Counter(kind for each in found for kind in {limit.kind for limit in each})
    looks = Counter(
        limit.note.partition(";")[0] for each in found for limit in each if limit.kind.startswith("language")
    )
    return {
        "benchmark": "limits noticed",
        "data": name,
        "cases": len(cases),
        "share": {kind: round(count / len(cases), 4) for kind, count in kinds.most_common()},
        "languages": dict(looks.most_common()),
        "milliseconds": round(1000 * seconds / len(cases), 3),
    }


def messages(file: Path) -> list[str]:
    """The translated messages of a file in the form of GNU gettext, without fields and markup."""
    texts = []
    for match in re.finditer(r'^msgstr(?:\[\d\])? ((?:".*"\n)+)', file.read_text("utf-8"), re.MULTILINE):
        text = "".join(json.loads(line) for line in match[1].split("\n") if line)
        texts.append(re.sub(r"%\(\w+\)[sd]|%[sd]|\{\w+\}|<[^>]+>", " ", text))
    return [text for text in texts[1:] if len(text.split()) >= 8 or language_of(text) in ("zh", "ja", "th", "km", "my")]


@benchmark()
def main(data: Path, django: Path | None = None) -> Iterator[dict[str, object]]:
    answers: dict[str, list[str]] = {}
    for example in read(f"mu_shroom:{data}/mu_shroom"):
        answers.setdefault(dict(example.group)["language"], []).append(example.case.response)
    for code, texts in sorted(answers.items()):
        yield languages("language of Mu-SHROOM's answers", code, texts)
    if django is not None:
        for folder in sorted((django / "conf" / "locale").iterdir()):
            code = SAME.get(folder.name, folder.name)
            files = sorted(django.glob(f"**/locale/{folder.name}/LC_MESSAGES/django*.po"))
            texts = [text for file in files for text in messages(file)]
            if code in LANGUAGES and code != "en" and len(texts) >= 20:
                yield languages(f"language of Django's messages, {folder.name}", code, texts)
    for name in (*ENGLISH, *PAIRS):
        path = data / name if name in ENGLISH else data / "entailment" / name
        yield limits(name, [example.case for example in islice(read(f"{name}:{path}"), MOST)])
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    yield limits("modules of Python's library", [Case(file.stem, file.read_text("utf-8")) for file in files])


if __name__ == "__main__":
    main()
