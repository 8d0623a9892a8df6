"""Makes `src/veridical/text/common_words.txt` again: `python benchmarks/common_words.py FOLDER`.

FOLDER holds plain English text files; the list in the package comes from 16 MB of Wikipedia articles and holds
nothing but frequent words. Words in small letters within a sentence are counted, so that names are not.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

OUT = Path(__file__).parents[1] / "src/veridical/text/common_words.txt"
WORDS = 6000
WITHIN_A_SENTENCE = re.compile(r"(?<=[a-z,;] )([a-z]{3,})\b")


def main(folder: str) -> None:
    counts: Counter[str] = Counter()
    for path in sorted(Path(folder).glob("*.txt")):
        counts.update(WITHIN_A_SENTENCE.findall(path.read_text("utf-8", "replace")))
    if len(counts) < WORDS:
        sys.exit(f"{len(counts)} words are in the .txt files of {folder}; {WORDS} or more are needed")
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
    OUT.write_text("\n".join(sorted(ranked)) + "\n", "utf-8")
    print(f"{len(ranked)} words, each at least {counts[ranked[-1]]} times in {sum(counts.values())}")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else ".")
