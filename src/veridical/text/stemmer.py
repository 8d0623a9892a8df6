"""Porter's stemmer for lower-case words, with the extensions that NLTK applies by default.

The stemmer is described in Porter, "An algorithm for suffix stripping", Program 14(3), 1980. The extensions are those
of NLTK's NLTK_EXTENSIONS mode: irregular forms, "-ies" and "-ied" of four letters, "-y" only after a consonant,
"-alli", "-fulli", "-logi".

The base install does not include NLTK, so the stemmer is implemented here. The tests compare both word by word.
"""

from __future__ import annotations

from functools import lru_cache

_IRREGULAR = {
    form: stem
    for stem, forms in {
        "sky": "sky skies",
        "die": "dying",
        "lie": "lying",
        "tie": "tying",
        "news": "news",
        "inning": "inning innings",
        "outing": "outing outings",
        "canning": "canning cannings",
        "howe": "howe",
        "proceed": "proceed",
        "exceed": "exceed",
        "succeed": "succeed",
    }.items()
    for form in forms.split()
}

# Suffix to replacement; only the first suffix that fits is tried.
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "fulli": "ful",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_ENDINGS = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"
_STEP_4 = tuple(_ENDINGS.split())
_ENDS_2 = tuple(_STEP_2)
_ENDS_3 = tuple(_STEP_3)


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Return the stem of a lower-case word.

    The first letter never changes, and words of one or two letters are returned unchanged. A stem is not always a word
    itself.

    >>> [stem(w) for w in "relational ponies dying died happily away".split()]
    ['relat', 'poni', 'die', 'die', 'happili', 'away']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    if word[-1] == "s":
        if word.endswith("sses") or (word.endswith("ies") and len(word) != 4):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word[-1] in "dg":
        word = _past(word)
    if word[-1] == "y" and len(word) > 2 and _shape(word)[-2] == "c":
        word = word[:-1] + "i"
    word = _step_2(word)
    rest, suffix = _without_suffix(word, _ENDS_3)
    if suffix and _measure(rest) > 0:
        word = rest + _STEP_3[suffix]
    rest, suffix = _without_suffix(word, _STEP_4)
    if suffix and _measure(rest) > 1 and (suffix != "ion" or rest.endswith(("s", "t"))):
        word = rest
    if word[-1:] == "e":
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """Replace every vowel of `word` by "v" and everything else by "c"; a "y" is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return Porter's m: how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Check Porter's *o: the end is consonant, vowel, consonant other than w, x, y; or the word is vowel, consonant."""
    shape = _shape(word)
    return shape == "vc" or (shape[-3:] == "cvc" and word[-1] not in "wxy")


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("ed"):
        rest = word[:-2]
    elif word.endswith("ing"):
        rest = word[:-3]
    else:
        return word
    shape = _shape(rest)
    if "v" not in shape:
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if shape.endswith("c") and rest[-2:-1] == rest[-1]:
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if shape.count("vc") == 1 and _ends_short(rest) else rest


def _step_2(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _step_2(word[:-2])  # the rest may end in another of these suffixes
    rest, suffix = _without_suffix(word, _ENDS_2)
    counted = word[:-3] if suffix == "logi" else rest  # "-logi" counts its own l
    return rest + _STEP_2[suffix] if suffix and _measure(counted) > 0 else word


def _without_suffix(word: str, suffixes: tuple[str, ...]) -> tuple[str, str]:
    """Remove the first suffix that fits from a word, and return the rest and the suffix (empty if none fits)."""
    suffix = next(filter(word.endswith, suffixes)) if word.endswith(suffixes) else ""
    return word.removesuffix(suffix), suffix
