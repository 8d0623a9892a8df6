"""Draw unflagged sentences of a run at random, so that people also find the errors that detectors missed."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate

from sqlalchemy import Connection, func, insert, select

from veridical.history.deciding import now
from veridical.history.sentences import checked_in, sentences_of
from veridical.history.tables import CASES, DOCUMENTS, SAMPLES
from veridical.records.spans import Span


def draw(connection: Connection, run: str, count: int, by: str, rng: random.Random) -> int:
    """Draw up to `count` unflagged sentences of a run for review, all equally likely. Return the number drawn.

    Sentences that were drawn before are not drawn again.
    """
    columns = (CASES.c.id, CASES.c.unflagged_sentences)
    rows = connection.execute(select(*columns).where(CASES.c.run == run, columns[1] > 0).order_by(CASES.c.id)).all()
    firsts = [0, *accumulate(n for _, n in rows)]
    place = {key: first for (key, _), first in zip(rows, firsts, strict=False)}
    earlier = select(SAMPLES.c.case, SAMPLES.c.sentence).join_from(SAMPLES, CASES).where(CASES.c.run == run)
    taken = {place[case] + sentence for case, sentence in connection.execute(earlier)}
    left = [i for i in range(firsts[-1]) if i not in taken]
    new = []
    for i in sorted(rng.sample(left, min(count, len(left)))):
        key = rows[bisect_right(firsts, i) - 1][0]
        checked = checked_in(connection.execute(select(DOCUMENTS.c.body).where(DOCUMENTS.c.case == key)).scalar_one())
        assert checked is not None
        span = [each for each, is_flagged in sentences_of(checked) if not is_flagged][i - place[key]]
        new.append(
            {"case": key, "sentence": i - place[key], "start": span.start, "end": span.end, "by": by, "at": now()}
        )
    if new:
        connection.execute(insert(SAMPLES), new)
    return len(new)


def sampled_in(connection: Connection, case: int) -> list[Span]:
    """Return the sentences of a case (given by its primary key) that were drawn for review, in order of position."""
    wanted = select(SAMPLES.c.start, SAMPLES.c.end).where(SAMPLES.c.case == case).order_by(SAMPLES.c.start)
    return [Span(start, end) for start, end in connection.execute(wanted)]


def sampling_probability(connection: Connection, run: str) -> float:
    """Compute the probability, in [0, 1], that an unflagged sentence of a run has been drawn so far."""
    drawn = select(func.count()).select_from(SAMPLES).join(CASES).where(CASES.c.run == run)
    unflagged = select(func.sum(CASES.c.unflagged_sentences)).where(CASES.c.run == run)
    return float(connection.execute(drawn).scalar_one() / max(connection.execute(unflagged).scalar_one() or 0, 1))
