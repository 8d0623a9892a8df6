"""Faults of the cache of replies: two writers, killed at random points."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from random import Random

from tests.faults.harness import Found, fault, kill_group, start
from veridical.llm.cache import Cached
from veridical.llm.protocol import Message, Reply, Request
from veridical.llm.scripted import Scripted

ASKED = 4000
WRITER = """
import sys
from pathlib import Path
from tests.faults.cache import requests, model
first, path = int(sys.argv[1]), Path(sys.argv[2])
for i in range(first, {asked}):
    model(path).chat([requests(i)])
"""


def requests(i: int) -> Request:
    return Request((Message("user", f"Question {i}"),))


def model(path: Path) -> Cached:
    return Cached(Scripted(lambda request: f"Answer to {request.messages[-1].content}", name="scripted"), path)


@fault("kill -9 of one of two writers of the cache")
def kill_writer(rng: Random, folder: Path) -> Found:
    found = Found()
    path = folder / "replies.db"
    stored = 0
    code = WRITER.format(asked=ASKED)
    for _ in range(6):
        found.tried += 1
        writers = [start("-c", code, str(rng.randrange(ASKED // 2)), str(path)) for _ in range(2)]
        try:
            time.sleep(rng.uniform(1, 3))
            writers[0].kill()
            time.sleep(rng.uniform(0, 0.5))
            found.check(writers[1].poll() in (None, 0), "the other writer ended with an error")
        finally:
            for writer in writers:
                kill_group(writer)
                if writer.stdout is not None:
                    writer.stdout.close()
        if not path.exists():  # killed before the first reply
            continue
        with closing(sqlite3.connect(path)) as file:
            whole = file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            found.check(whole, "the file is damaged")
            has_table = file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            stored = file.execute("SELECT count(*) FROM replies").fetchone()[0] if has_table else 0
    asked = Cached(Scripted([], name="scripted"), path)  # knows nothing itself
    replies = [asked.chat([requests(i)])[0] for i in range(ASKED)]
    kept = [(i, reply) for i, reply in enumerate(replies) if isinstance(reply, Reply)]
    found.lost = stored - len(kept)
    found.wrong += sum(reply.text != f"Answer to Question {i}" for i, reply in kept)
    found.notes.append(f"{len(kept)} replies kept")
    return found
