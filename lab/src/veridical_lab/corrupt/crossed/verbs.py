"""Inflect English verbs, irregular ones by a table and all others by rules."""

from __future__ import annotations

import re

from veridical_lab.corrupt.english import word_set

# base, past and participle; a missing participle equals the past, a missing past equals the base
_IRREGULAR = """
arise arose arisen, awake awoke awoken, bear bore born, beat beat beaten, become became become, begin began begun,
bend bent, bet, bind bound, bite bit bitten, bleed bled, blow blew blown, break broke broken, breed bred, bring
brought, broadcast, build built, burst, buy bought, cast, catch caught, choose chose chosen, cling clung, come came
come, cost, creep crept, cut, deal dealt, dig dug, do did done, draw drew drawn, drink drank drunk, drive drove
driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find found, flee fled, fly flew flown,
forbid forbade forbidden, forecast, foresee foresaw foreseen, forget forgot forgotten, forgive forgave forgiven,
freeze froze frozen, get got, give gave given, go went gone, grind ground, grow grew grown, hang hung, have had, hear
heard, hide hid hidden, hit, hold held, hurt, keep kept, kneel knelt, know knew known, lay laid, lead led, leave left,
lend lent, let, lie lay lain, lose lost, make made, mean meant, meet met, mislead misled, mistake mistook mistaken,
outbid, outgrow outgrew outgrown, overcome overcame overcome, overrun overran overrun, oversee oversaw overseen,
overtake overtook overtaken, overthrow overthrew overthrown, pay paid, put, quit, read, rebuild rebuilt, retake retook
retaken, ride rode ridden, ring rang rung, rise rose risen, run ran run, say said, see saw seen, seek sought, sell
sold, send sent, set, shake shook shaken, shed, shine shone, shoot shot, show showed shown, shrink shrank shrunk,
shut, sing sang sung, sink sank sunk, sit sat, sleep slept, slide slid, speak spoke spoken, spend spent, spin spun,
split, spread, spring sprang sprung, stand stood, steal stole stolen, stick stuck, strike struck, strive strove
striven, swear swore sworn, sweep swept, swim swam swum, swing swung, take took taken, teach taught, tear tore torn,
tell told, think thought, throw threw thrown, thrust, undergo underwent undergone, understand understood, undertake
undertook undertaken, uphold upheld, wear wore worn, weave wove woven, win won, wind wound, withdraw withdrew
withdrawn, withhold withheld, withstand withstood, write wrote written, rewrite rewrote rewritten, be was been
"""
_FORMS = {
    base: (rest[0] if rest else base, rest[1] if len(rest) > 1 else rest[0] if rest else base)
    for base, *rest in (entry.split() for entry in _IRREGULAR.replace("\n", " ").split(","))
}
_DOUBLED = word_set("""
admit commit permit submit omit emit transmit refer prefer transfer confer defer infer occur recur incur concur compel
expel propel repel dispel rebel excel control patrol regret equip kidnap upset abet deter abhor acquit befit allot
format program travel cancel label model level signal rival fuel tunnel
""")
_ONE_SYLLABLE = re.compile(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]")


def _stem(lemma: str) -> str:
    """Return the form to which "ed" and "ing" are added. The last consonant is doubled where English does so."""
    return lemma + lemma[-1] if lemma in _DOUBLED or _ONE_SYLLABLE.fullmatch(lemma) else lemma


def past(lemma: str) -> str:
    """Return the past form of a verb. For "be", this is the singular "was".

    >>> [past(verb) for verb in ("defeat", "stop", "carry", "write", "be")]
    ['defeated', 'stopped', 'carried', 'wrote', 'was']
    """
    return _FORMS[lemma][0] if lemma in _FORMS else _regular(lemma)


def participle(lemma: str) -> str:
    """Return the past participle of a verb.

    >>> [participle(verb) for verb in ("defeat", "write", "be")]
    ['defeated', 'written', 'been']
    """
    return _FORMS[lemma][1] if lemma in _FORMS else _regular(lemma)


def _regular(lemma: str) -> str:
    if lemma.endswith("e"):
        return lemma + "d"
    if re.search("[^aeiou]y$", lemma):
        return lemma[:-1] + "ied"
    return _stem(lemma) + "ed"


def gerund(lemma: str) -> str:
    """Return the form of a verb that ends in "ing".

    >>> [gerund(verb) for verb in ("write", "run", "be", "see", "die")]
    ['writing', 'running', 'being', 'seeing', 'dying']
    """
    if lemma.endswith("ie"):
        return lemma[:-2] + "ying"
    if lemma.endswith("e") and not lemma.endswith(("ee", "oe", "ye")) and lemma != "be":
        return lemma[:-1] + "ing"
    return _stem(lemma) + "ing"


def third_person(lemma: str) -> str:
    """Return the present form of a verb that follows "it".

    >>> [third_person(verb) for verb in ("teach", "carry", "play", "have", "be")]
    ['teaches', 'carries', 'plays', 'has', 'is']
    """
    if lemma in ("have", "be"):
        return {"have": "has", "be": "is"}[lemma]
    if re.search("[^aeiou]y$", lemma):
        return lemma[:-1] + "ies"
    return lemma + ("es" if re.search("(?:s|x|z|ch|sh|[^aeiou]o)$|^go$|^do$", lemma) else "s")


def conjugate(lemma: str, tense: str, plural: bool) -> str:
    """Return the finite form of a verb in the third person. `tense` is past, present, perfect or pluperfect.

    >>> conjugate("lose", "past", False), conjugate("be", "present", True), conjugate("lose", "perfect", False)
    ('lost', 'are', 'has lost')
    """
    if tense == "past":
        return "were" if lemma == "be" and plural else past(lemma)
    if tense == "present":
        return ("are" if lemma == "be" else lemma) if plural else third_person(lemma)
    return f"{'had' if tense == 'pluperfect' else conjugate('have', 'present', plural)} {participle(lemma)}"


def passive(lemma: str, tense: str, plural: bool) -> str:
    """Return the finite passive form of a verb in the third person.

    >>> passive("write", "perfect", True)
    'have been written'
    """
    return f"{conjugate('be', tense, plural)} {participle(lemma)}"
