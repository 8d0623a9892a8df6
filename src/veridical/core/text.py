"""Make text safe and short for people to read: show hidden characters as signs, cut long texts in the middle.

Also find where the answer begins in a text of a model that reasons first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import islice

__all__ = ["answer_start", "is_blank", "shorten", "unique_names", "visible"]

# Characters that must not reach a terminal or a page unchanged: controls (escape sequences start with one), line and
# paragraph separators, bidirectional embeddings, overrides and isolates, invisible spaces, tag characters, lone
# surrogates, noncharacters. Joiners and left-to-right marks stay: text needs them, and alone they are harmless.
_HIDDEN = re.compile(
    "\r(?=\n)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
# the end of reasoning whose opening tag is lost; a tag inside a line is a quotation
_END_OF_THOUGHT = re.compile(
    r"^[ \t]*</(?:think|thinking|reasoning)>|</(?:think|thinking|reasoning)>[ \t]*$", re.M | re.I
)


def answer_start(text: str) -> int:
    """Return where `text` goes on after the tagged reasoning that some models put first; its length if it does not.

    The opening tag may be lost, as some servers cut it off. If several tags could then end the reasoning, the text is
    ambiguous and the result is its length.

    >>> [answer_start(text) for text in ("Yes", "<think>Is it?</think>Yes", "Is it?\\n</think>Yes", "<think>Is it")]
    [0, 21, 15, 12]
    """
    if thought := _THOUGHT.match(text):
        return thought.end()
    ends = list(islice(_END_OF_THOUGHT.finditer(text), 2))
    if not ends:
        return 0
    return ends[0].end() if len(ends) == 1 else len(text)


def is_blank(text: str) -> bool:
    """Return whether `text` is empty or holds only white space and invisible format characters.

    >>> is_blank(" \\n\\u200b"), is_blank("…")
    (True, False)
    """
    return all(character.isspace() or unicodedata.category(character) == "Cf" for character in text)


def visible(text: str, start: int = 0, end: int | None = None) -> str:
    """Return `text[start:end]` with every control or hidden character replaced by a visible sign.

    ASCII controls become their pictures (␛), others ⟨U+202E⟩. Line feeds and tabs stay; a line break of two
    characters becomes one. You can pass a text piece by piece: the results join to the visible text.

    >>> visible("a\\x1b[2Jb\\u202ec\\r\\n")
    'a␛[2Jb⟨U+202E⟩c\\n'
    """
    stop = len(text) if end is None else end
    if stop > start and text[stop - 1] == "\r" and text[stop : stop + 1] == "\n":
        stop -= 1  # its line feed is in the next piece
    return _HIDDEN.sub(_sign, text[start:stop])


def _sign(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character == "\r" and match.string[match.end() : match.end() + 1] == "\n":
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def shorten(text: str, limit: int) -> str:
    """Put `text` on one line, and replace its middle by … if it is longer than `limit` characters.

    >>> shorten("one two three four five six", 15)
    'one two … six'
    """
    if len(text) > 4 * limit:  # do not split a very long text only to throw it away
        text = f"{text[: 2 * limit]} {text[-2 * limit :]}"
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head, tail = line[: limit * 2 // 3].rsplit(" ", 1)[0], line[-(limit // 3) :]
    return f"{head} … {tail.split(' ', 1)[-1]}"


def unique_names(names: Iterable[str]) -> list[str]:
    """Return `names` with a number added to each repeated one.

    >>> unique_names(["a.txt", "b.txt", "a.txt"])
    ['a.txt', 'b.txt', 'a.txt (2)']
    """
    unique: dict[str, None] = {}
    for name in names:
        variants = (name, *(f"{name} ({i})" for i in range(2, len(unique) + 3)))
        unique[next(variant for variant in variants if variant not in unique)] = None
    return list(unique)
