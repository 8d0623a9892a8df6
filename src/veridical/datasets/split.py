"""Split examples by document, and hash a set of examples."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate

from veridical.io.serialization import encode
from veridical.records.errors import InputError
from veridical.records.types import Case, Example

FRACTIONS: Mapping[str, float] = {"train": 0.7, "valid": 0.1, "test": 0.2}  # CH-Wang et al. 2024, §5.1


def document_of(example: Example) -> str:
    """Return the key by which splits, folds and bootstrap samples keep examples together.

    This is "document:NAME" with the document of the example, or "case:ID" if the example names no document.
    """
    return f"document:{example.document}" if example.document is not None else f"case:{example.case.id}"


def split_by_document(
    examples: Iterable[Example], fractions: Mapping[str, float] = FRACTIONS, *, seed: int = 0
) -> dict[str, list[Example]]:
    """Split examples so that all examples of a document are in the same split. Each split keeps their order.

    The split of a document depends only on `seed` and on the name of the document (SHA-256), so it does not change if
    you add or reorder other documents. `fractions` are proportions of the documents, and hold only approximately.

    Raises:
        InputError: A fraction lies outside [0, 1], or the fractions do not sum to 1.
    """
    if not all(0.0 <= share <= 1.0 for share in fractions.values()) or not math.isclose(sum(fractions.values()), 1.0):
        shown = ", ".join(f"{name} {share:g}" for name, share in fractions.items())
        raise InputError(f"the fractions are {shown or 'none'}", hint="each is in [0, 1] and they sum to 1")
    parts: dict[str, list[Example]] = {name: [] for name in fractions}
    usable = [name for name, share in fractions.items() if share > 0.0]
    bounds = list(accumulate(fractions[name] for name in usable))
    for example in examples:
        digest = hashlib.sha256(f"{seed}\0{document_of(example)}".encode("utf-8", "surrogatepass")).digest()
        part_i = bisect_right(bounds, int.from_bytes(digest[:8], "big") / 2**64)
        parts[usable[min(part_i, len(usable) - 1)]].append(example)  # rounding may leave the last bound below 1
    return parts


def content_hash(examples: Iterable[Example | Case]) -> str:
    """Return the SHA-256 hash of a set of examples or cases, in hexadecimal digits. Their order does not matter.

    The hashes of their JSON documents are added up modulo 2**256, so that memory does not grow. The sum is then hashed
    together with the number of documents.
    """
    total = number = 0
    for example in examples:
        total += int.from_bytes(hashlib.sha256(encode(example).encode()).digest(), "big")
        number += 1
    summed = (total % 2**256).to_bytes(32, "big")
    return hashlib.sha256(summed + number.to_bytes(8, "big")).hexdigest()
