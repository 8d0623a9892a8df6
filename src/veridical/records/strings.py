"""Make text safe and short for people to read: show hidden characters as symbols, and cut long texts in the middle.

This module also finds where the answer begins in the reply of a model that reasons first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain, count, islice

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
    r"""Return the position at which the answer begins, after the `<think>` block that some models put first.

    A text without such a block has its answer at 0. The opening tag may be missing, because some servers remove it. If
    no answer follows, or if several tags could end the reasoning, the result is the length of the text.

    >>> [answer_start(text) for text in ("Yes", "<think>Is it?</think>Yes", "Is it?\n</think>Yes", "<think>Is it")]
    [0, 21, 15, 12]
    """
    if thought := _THOUGHT.match(text):
        return thought.end()
    ends = list(islice(_END_OF_THOUGHT.finditer(text), 2))
    if not ends:
        return 0
    return ends[0].end() if len(ends) == 1 else len(text)


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_halves(text: str) -> tuple[str, str]:
    r"""Join surrogate pairs that a stream has split between two pieces of text, such as the two halves of an emoji.

    Return the joined text and, if the text ends in the first half of a pair, this half ("" otherwise). Put the half
    before the next piece.

    >>> join_halves("a\ud83d" + "\ude00b\ud83d")
    ('a😀b', '\ud83d')
    """
    end = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
    pairs = _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text[:end])
    return pairs, text[end:]


def is_blank(text: str) -> bool:
    r"""Return whether `text` contains nothing but white space and invisible format characters.

    >>> is_blank(" \n\u200b"), is_blank("…")
    (True, False)
    """
    return all(character.isspace() or unicodedata.category(character) == "Cf" for character in text)


def visible(text: str, start: int = 0, end: int | None = None) -> str:
    r"""Replace every control or hidden character in `text[start:end]` by a visible symbol.

    ASCII control characters become pictures (␛), and other characters become their code, such as ⟨U+202E⟩. Line feeds
    and tabs are kept, and a carriage return before a line feed is dropped. You can process a long text piece by piece,
    with `start` and `end`, and join the results.

    >>> visible("a\x1b[2Jb\u202ec\r\n")
    'a␛[2Jb⟨U+202E⟩c\n'
    """
    stop = len(text) if end is None else end
    if stop > start and text[stop - 1] == "\r" and text[stop : stop + 1] == "\n":
        stop -= 1  # its line feed is in the next piece
    return _HIDDEN.sub(_sign, text[start:stop])


def visible_line(text: str) -> str:
    r"""Replace every control or hidden character by a visible symbol, so that the result is one line.

    Unlike `visible`, it also replaces line feeds and tabs.

    >>> visible_line("a\nveridical: b")
    'a␊veridical: b'
    """
    return visible(text).replace("\n", "␊").replace("\t", "␉")


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


def unique_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Make names unique by adding a number to each name that is repeated or already in `taken`.

    >>> unique_names(["a.txt", "b.txt", "a.txt"], taken=["b.txt"])
    ['a.txt', 'b.txt (2)', 'a.txt (2)']
    """
    used = set(taken)
    unique: list[str] = []
    for name in names:
        variants = chain([name], (f"{name} ({i})" for i in count(2)))
        unique.append(next(variant for variant in variants if variant not in used))
        used.add(unique[-1])
    return unique
