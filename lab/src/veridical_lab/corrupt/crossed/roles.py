"""Make statements about who did something to whom.

The rules exchange subject and object, exchange active and passive, replace verbs by their converses ("beat" by "lose
to"), and exchange the two sides of verbs of cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from veridical_lab.corrupt.crossed.crossing import Crossing
from veridical_lab.corrupt.crossed.scenes import Relation, Scene
from veridical_lab.corrupt.crossed.trees import Phrase
from veridical_lab.corrupt.crossed.verbs import conjugate, passive
from veridical_lab.corrupt.english import word_set

_SYMMETRIC = word_set("""
marry meet join play face fight resemble equal match border divorce date kiss hug oppose contact accompany befriend
encounter rival share combine have be become mean include contain represent remain feature want need like know see watch
debut merge rejoin divide near parallel adjoin approximate cross connect
""")
_ONE_WAY = word_set("""
attend finish place rank total comprise win earn hold enter stay serve receive gain number put base
""")
"""Verbs that make no sense if their two sides change places."""
_NO_PASSIVE = word_set("get go make have lack cost fit suit become resemble equal reach enter leave join")
_RECIPIENTS = word_set("award give grant offer pay hand bring allow cost promise owe deny show")
_WITH_MORE = word_set("provide supply regard view treat describe consider credit equip prevent compare put send")
_COMPLEMENTS = ("oprd", "xcomp", "ccomp", "dative", "acomp", "attr")


def roles(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange subject and object: "Anna beat Eva" and "Eva beat Anna"."""
    for relation in scene.relations(i):
        b, fact = relation.b, relation.fact
        if fact.passive or fact.lemma in _SYMMETRIC | _ONE_WAY or not _may_change_places(relation):
            continue
        needs_more = fact.lemma in _WITH_MORE or fact.tree.child(fact.verb, "xcomp", "oprd", "ccomp") is not None
        rest = fact.rest(b.last) if needs_more or draw.random() < 0.5 else ""
        between = fact.until(b.first - 1)
        if (needs_more and not rest) or "," in between or " as " in between:
            continue
        form = draw.choice(("same", "same", "who", "whom")) if fact.tense in ("present", "past") else "same"
        be = "is" if fact.tense == "present" else "was"
        template = {
            "same": f"{{0}} {between} {{1}}{rest}.",
            "who": f"It {be} {{0}} that {between} {{1}}{rest}.",
            "whom": f"It {be} {{1}} that {{0}} {between}{rest}.",
        }[form]
        said = [template.format(_marked(one), _marked(other)) for one, other in relation.sides]
        yield _crossing(relation, "roles", f"{form}: {fact.lemma}", said)


def voices(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Make an active sentence passive, or the reverse, with the roles kept and with the roles exchanged."""
    for relation in scene.relations(i):
        fact, verb = relation.fact, relation.fact.lemma
        if verb in _SYMMETRIC | _ONE_WAY | _NO_PASSIVE | _RECIPIENTS or not _may_change_places(relation):
            continue
        if fact.tree.child(fact.verb, *_COMPLEMENTS) is not None:
            continue
        adds_rest = draw.random() < 0.5 and fact.tree.deps[fact.verb] != "acl"
        rest = fact.rest(max(relation.a.last, relation.b.last)) if adds_rest else ""
        said = [_in_other_voice(relation, agent, other, rest) for agent, other in relation.sides]
        yield _crossing(relation, "voice", f"{'active' if fact.passive else 'passive'}: {verb}", said)


def _in_other_voice(relation: Relation, agent: Phrase, other: Phrase, rest: str) -> str:
    fact = relation.fact
    particle = relation.key.partition(" ")[2]
    up = f" {particle}" if particle else ""
    if fact.passive:
        return f"{_marked(agent)} {conjugate(fact.lemma, fact.tense, agent.plural)}{up} {_marked(other)}{rest}."
    return f"{_marked(other)} {passive(fact.lemma, fact.tense, other.plural)}{up} by {_marked(agent)}{rest}."


def converses(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Express a relation by its converse: "Anna beat Eva" as "Eva lost to Anna"."""
    for relation in scene.relations(i):
        table = CONVERSES if relation.key in CONVERSES and _agents(relation) == 2 else FREE_CONVERSES
        yield from _from_table(relation, table, "converse", draw)


def causes_by_verb(scene: Scene, i: int, draw: Random) -> Iterator[Crossing]:
    """Exchange cause and effect of verbs such as "led to": "B was the result of A"."""
    for relation in scene.relations(i):
        tree, after = relation.fact.tree, relation.b.last + 1
        is_clear = tree.deps[relation.fact.verb] != "relcl"  # what "which" refers to is uncertain
        if is_clear and tree.tags[after : after + 1] not in (["VBG"], ["VBN"]):  # "resulted in people being shot"
            yield from _from_table(relation, CAUSES, "cause", draw)


def _from_table(relation: Relation, table: Mapping[str, Sequence[str]], kind: str, draw: Random) -> Iterator[Crossing]:
    templates = table.get(relation.key)
    if templates and _agents(relation) != 1 and _are_exchangeable(relation):
        template = draw.choice(templates)
        said = [_filled(template, a, b, relation.extra, relation.fact.tense) for a, b in relation.sides]
        yield _crossing(relation, kind, relation.key, said)


def _agents(relation: Relation) -> int:
    """Count how many of the two phrases name something that can act."""
    return sum(phrase.is_agent or phrase.kind == "name" for phrase in (relation.a, relation.b))


def _may_change_places(relation: Relation) -> bool:
    """Return whether the relation remains plausible if its two sides change places."""
    return relation.is_direct and _agents(relation) == 2 and _are_exchangeable(relation)


def _are_exchangeable(relation: Relation) -> bool:
    """Return whether the two phrases share no word, and the verb fits both of them in number."""
    a, b, fact = relation.a, relation.b, relation.fact
    words = [set(phrase.said.lower().split()) - {"the", "a", "an", "of", "in"} for phrase in (a, b)]
    agrees = fact.tense in ("present", "perfect") or fact.passive or fact.lemma == "be" or not fact.alone
    return not words[0] & words[1] and (a.plural == b.plural or not agrees)


def _crossing(relation: Relation, kind: str, form: str, statements: Sequence[str]) -> Crossing:
    right, wrong = statements
    fact = relation.fact
    heads = frozenset(
        phrase.said.split()[-1].lower() if phrase.name else fact.tree.lower[phrase.head]
        for phrase in (relation.a, relation.b)
    )
    version = {fact.sentence: relation.exchanged()}
    return Crossing(kind, form, ({}, version), (right, wrong), fact.touched, heads)


def _marked(phrase: Phrase) -> str:
    return f"‹{phrase.said}›"


def _filled(template: str, a: Phrase, b: Phrase, extra: str, tense: str) -> str:
    """Fill a template. A and B are the phrases, and X is `extra`. A verb after * agrees with the first phrase."""
    phrases = {"A": a, "B": b}
    parts = template.split()
    subject = phrases[parts[0]]
    said = []
    for part in parts:
        phrase = phrases.get(part.removesuffix("'s"))
        if part.startswith("*"):
            said.append(conjugate(part[1:], tense, subject.plural))
        elif phrase is not None:
            ending = "" if not part.endswith("'s") else "'" if phrase.said.endswith("s") else "'s"
            said.append(_marked(phrase) + ending)
        else:
            said.append(extra if part == "X" else part)
    return " ".join(said) + "."


def _table(rows: str) -> dict[str, list[str]]:
    """Parse lines such as "keys: template | template", where commas separate the keys."""
    table: dict[str, list[str]] = {}
    for row in rows.strip().splitlines():
        keys, _, templates = row.partition(":")
        for key in keys.split(","):
            table.setdefault(key.strip(), []).extend(template.strip() for template in templates.split("|"))
    return table


CONVERSES = _table("""
beat, defeat: B *lose to A | A *win against B
teach: B *learn from A | B *be a pupil of A
employ: B *work for A
hire: B *go to work for A | B *be taken on by A
own: B *belong to A | B *be the property of A
succeed: B *precede A | A *be the successor of B | B *be the predecessor of A
replace: B *make way for A | A *take the place of B
inspire: B *get inspiration from A
influence: B *be under the influence of A
lead, head, run, manage: B *be under the leadership of A
rule, govern: B *be under the rule of A
control, dominate: B *be under the control of A
command: B *take orders from A | B *be under the command of A
host: B *be a guest of A
interview: B *give an interview to A | B *answer A's questions
kill, murder, assassinate: B *die at the hands of A
attack, bomb: B *come under attack from A
criticise, criticize: B *draw criticism from A | B *face criticism from A
praise: B *win praise from A | B *get praise from A
support, back: B *have the support of A | B *enjoy the backing of A
help, assist, aid: B *get help from A
invite: B *get an invitation from A
visit: B *have a visit from A | A *pay a visit to B
adopt: B *become an adopted child of A
outlive, survive: B *die before A
acquire, buy, purchase: B *become the property of A | B *pass into the ownership of A
advise, counsel: B *get advice from A
train, coach: B *train under A | B *get training from A
mentor, tutor: B *have A as a mentor
conquer, capture, seize, take: B *fall to A
invade: B *suffer an invasion by A
fund, finance, sponsor: B *get money from A | B *receive funds from A
threaten: B *get threats from A
sue: B *have to answer a lawsuit by A
hate, love, admire, fear, respect: B *be the object of the feelings of A
protect, guard: B *be under the protection of A
save, rescue: B *owe rescue to A
found, establish: B *have A as the founder
follow: B *go before A | B *come ahead of A
precede: B *come after A | B *follow A
blame, accuse: B *get blame from A
trust: B *have the trust of A
appoint: B *owe the appointment to A
elect: B *owe the election to A
order: B *get an order from A
warn: B *get a warning from A
pay: B *get money from A
thank: B *get thanks from A
hit, strike, injure, wound: B *suffer a blow from A
persuade, convince: B *be won over by A
outscore, outnumber, overtake: B *fall behind A
betray: B *suffer a betrayal by A
arrest, detain: B *be taken into custody by A
free, liberate: B *owe freedom to A
deceive, trick: B *be taken in by A
raise: B *grow up with A
promote: B *owe a promotion to A
lose to: B *beat A | B *win against A
learn from: B *teach A
study under, study with, train under: B *teach A | B *be a teacher of A
work for: B *employ A | B *have A as an employee
work under, serve under: B *be in charge of A | B *be A's superior
report to: B *be A's superior
surrender to, fall to: B *overcome A
depend on, rely on: B *be needed by A
descend from: B *be an ancestor of A
be succeeded by, be replaced by: B *come after A
be named after, be named for: B *be the one whose name A *have
be born to: B *be a parent of A
be taught by: B *teach A
be father of, be mother of, be parent of: B *be a child of A
be son of, be daughter of, be child of: B *be a parent of A
be grandson of, be granddaughter of, be grandchild of: B *be a grandparent of A
be grandfather of, be grandmother of: B *be a grandchild of A
be nephew of, be niece of: B *be an uncle or aunt of A
be uncle of, be aunt of: B *be a nephew or niece of A
be ancestor of: B *be a descendant of A
be descendant of: B *be an ancestor of A
be predecessor of: B *be the successor of A
be successor of, be successor to: B *be the predecessor of A
be teacher of: B *be a pupil of A
be student of, be pupil of, be disciple of: B *be a teacher of A
be employee of: B *employ A
be subsidiary of, be division of: B *own A
be owner of: B *belong to A
be founder of: B *have A as the founder
be leader of, be head of, be president of, be director of, be chairman of, be captain of: B *be headed by A
be member of, be part of: B *have A as a member
be enemy of: B *have A as an enemy
be author of, be creator of: B *be the work of A
buy X from, purchase X from: B *sell X to A | A *get X from B
sell X to: B *buy X from A | B *get X from A
lend X to: B *borrow X from A
borrow X from: B *lend X to A
hand X to, grant X to, award X to, donate X to, present X to, offer X to: B *get X from A
receive X from, get X from, obtain X from, accept X from: B *give X to A
inherit X from: B *leave X to A
teach X to: B *learn X from A
learn X from: B *teach X to A
send X to: B *get X from A
rent X from, lease X from: B *let X to A
export X to: B *import X from A
import X from: B *export X to A
take X from: B *lose X to A
owe X to: B *wait for X from A
win X from: B *lose X to A
steal X from: B *lose X to A
""")
"""Converses for relations between two people or groups, by `Relation.key`."""
FREE_CONVERSES = _table("""
contain, include, comprise: B *be part of A | B *be found in A
surround, enclose: B *be in the middle of A
exceed, surpass: B *be less than A
precede: B *come after A
replace, supersede, supplant: B *make way for A
inspire: B *be modelled on A
consist of: B *make up A
derive from, originate from, stem from, arise from, evolve from, develop from: B *be the origin of A
belong to: B *have A as a part
depend on: B *be a condition for A
be based on: B *be the basis of A
be derived from: B *be the source of A
be surrounded by: B *be all around A
be part of: B *include A | A *be inside B
be suburb of: B *have A on the edge
be district of, be neighbourhood of, be neighborhood of: B *have A as a part
be capital of: B *have A as the capital
be tributary of: B *take in the waters of A
be sequel to: B *be continued in A
be north of, lie north of: B *be south of A
be south of, lie south of: B *be north of A
be east of, lie east of: B *be west of A
be west of, lie west of: B *be east of A
be northeast of: B *be southwest of A
be northwest of: B *be southeast of A
be southeast of: B *be northwest of A
be southwest of: B *be northeast of A
lie above, sit above, stand above, be above: B *be below A
lie below, sit below, be below, lie beneath: B *be above A
lie behind, stand behind, be behind: B *be in front of A
be before, come before: B *be after A
be after, come after: B *be before A
flow into, drain into, empty into: B *receive the waters of A
""")
"""Converses for relations between things or places, by `Relation.key`."""
CAUSES = _table("""
cause, trigger, provoke, bring about: B *be the result of A | B *come from A | A *give rise to B
lead to, result in: B *be the result of A | A *be the cause of B | B *come from A
result from, stem from, arise from, originate from, be due to: B *be the cause of A | B *lead to A | B *bring about A
be cause of, be reason for, be source of: B *be the result of A | B *come from A
be result of, be consequence of, be effect of, be product of: B *be the cause of A | B *lead to A
""")
"""Converses for relations between cause and effect, by `Relation.key`."""
