"""Replace a word by a stronger or weaker one, which changes the meaning of a statement slightly: "may" and "will"."""

from __future__ import annotations

import random
import re

from veridical.records.spans import Span
from veridical.records.types import Edit

STRENGTHS = {
    "may": "will", "might": "will", "can": "will", "could": "would", "should": "must", "some": "all", "many": "all",
    "most": "all", "few": "no", "often": "always", "usually": "always", "sometimes": "often", "rarely": "never",
    "likely": "certain", "unlikely": "impossible", "possible": "certain", "difficult": "impossible",
    "hard": "impossible", "important": "essential", "helpful": "essential", "consensus": "unanimity", "reduce": "end",
    "reduces": "ends", "reducing": "ending", "decrease": "end", "decreases": "ends", "limit": "prevent",
    "limits": "prevents", "harm": "destroy", "harms": "destroys", "hurt": "destroy", "hurts": "destroys",
    "damage": "destroy", "damages": "destroys", "risk": "certainty", "help": "cause", "helps": "causes",
    "encourage": "force", "encourages": "forces", "promote": "ensure", "promotes": "ensures", "improve": "perfect",
    "improves": "perfects", "more": "far more", "better": "best", "safer": "safe", "cheaper": "free", "must": "may",
    "will": "may", "all": "some", "always": "often", "never": "rarely", "every": "nearly every", "only": "mainly",
    "need": "want", "needs": "wants", "prevent": "reduce", "prevents": "reduces", "ensure": "promote",
    "ensures": "promotes", "cause": "influence", "causes": "influences", "lead": "contribute", "leads": "contributes",
    "essential": "useful", "no": "little",
}  # fmt: skip
_WORD = re.compile(rf"\b(?:{'|'.join(STRENGTHS)})\b", re.IGNORECASE)


def change_strength(text: str, draw: random.Random) -> Edit | None:
    """Make one word of a text stronger or weaker. Return the edit, or None if the text has no such word.

    >>> change_strength("Cars may pollute the air.", random.Random(0))
    Edit(span=Span(start=5, end=8), replacement='will', because='meaning')
    """
    matches = list(_WORD.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    word = STRENGTHS[match[0].lower()]
    return Edit(Span(*match.span()), word.capitalize() if match[0][0].isupper() else word, "meaning")
