"""English word lists that several modules share."""

from __future__ import annotations

import re

MONTHS = tuple(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
SHORT_MONTHS = ("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec")
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())  # noqa: SIM905
NEGATIONS = frozenset({"not", "no", "never", "neither", "nor", "none", "nobody", "nothing", "without", "cannot"})
NEGATED = re.compile(rf"n['’]t\b|\b(?:{'|'.join(sorted(NEGATIONS))})\b", re.IGNORECASE)
"""Matches a negation in a text."""

_PAIRS = """
increase/decrease increased/decreased increases/decreases increasing/decreasing rise/fall rose/fell rises/falls
rising/falling gained/lost win/lose won/lost wins/loses winning/losing accept/reject accepted/rejected
accepts/rejects agreed/refused agree/refuse allow/forbid allowed/forbidden allows/forbids approve/reject
approved/rejected support/oppose supported/opposed supports/opposes supporting/opposing buy/sell bought/sold
buys/sells open/closed opened/closed opening/closing begin/end began/ended begins/ends beginning/ending
start/finish started/finished starts/finishes arrive/depart arrived/departed arrives/departs succeed/fail
succeeded/failed include/exclude included/excluded includes/excludes including/excluding create/destroy
created/destroyed build/demolish built/demolished praise/criticise praised/criticised admitted/denied confirm/deny
confirmed/denied improve/worsen improved/worsened strengthen/weaken strengthened/weakened expand/shrink
expanded/reduced raised/lowered appointed/dismissed hired/fired arrested/released imported/exported
import/export male/female man/woman men/women boy/girl boys/girls father/mother son/daughter sons/daughters
brother/sister brothers/sisters husband/wife king/queen large/small larger/smaller largest/smallest
bigger/smaller biggest/smallest high/low higher/lower highest/lowest long/short
longer/shorter longest/shortest older/younger oldest/youngest early/late earlier/later earliest/latest fast/slow
faster/slower fastest/slowest strong/weak stronger/weaker strongest/weakest rich/poor cheap/expensive hot/cold
warm/cool wet/dry heavy/light heavier/lighter good/bad better/worse best/worst easy/difficult common/rare
popular/unpopular successful/unsuccessful legal/illegal possible/impossible guilty/innocent true/false safe/dangerous
public/private local/foreign permanent/temporary major/minor positive/negative ancient/modern urban/rural
internal/external upper/lower northern/southern eastern/western northeastern/southwestern north/south
east/west inside/outside before/after above/below always/never often/rarely usually/rarely all/none
majority/minority minimum/maximum victory/defeat success/failure profit/loss
enemy/ally friend/enemy beginning/end entrance/exit
"""
ANTONYM_PAIRS = tuple((first, second) for first, _, second in (pair.partition("/") for pair in _PAIRS.split()))
"""Pairs of a word and its opposite in the same grammatical form. A word may be in several pairs."""

_SIMILAR = """
increase increased increases increasing rise rose risen rises rising grow grew grown grows growing gain gained
gains gaining climb climbed climbs climbing raise raised raises raising up higher soar soared expand expanded
expands expanding
/
decrease decreased decreases decreasing fall fell fallen falls falling drop dropped drops dropping decline
declined declines declining reduce reduced reduces reducing lower lowered lowers lowering down shrink shrank
shrinks shrinking cut cuts lost
/
win won wins winning beat beats beaten defeat defeated defeats victory triumph triumphed
/
lose lost loses losing defeat beaten
/
begin began begun begins beginning start started starts starting open opened opens opening launch launched
launches
/
end ended ends ending finish finished finishes finishing close closed closes closing stop stopped stops
/
accept accepted accepts approve approved approves agree agreed agrees support supported supports back backed
allow allowed
/
reject rejected rejects refuse refused refuses oppose opposed opposes forbid forbade forbidden deny denied
denies ban banned
/
large larger largest big bigger biggest huge great greater greatest
/
small smaller smallest little minor tiny
/
buy bought buys buying purchase purchased acquire acquired acquires
/
sell sold sells selling
/
build built builds create created creates found founded establish established
"""
SIMILAR: dict[str, frozenset[str]] = {}
"""For each word that has an opposite, the words that can mean the same."""
for _group in _SIMILAR.split("/"):
    for _word in _group.split():
        SIMILAR[_word] = SIMILAR.get(_word, frozenset()) | frozenset(_group.split())
