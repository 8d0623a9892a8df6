"""A chat model that asks another one only what it has not been asked before: replies lie in one SQLite file.

Safe for several threads and processes. Failures are never kept. The texts of requests are not kept, only their hash.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from veridical.core.errors import InputError, OutputError
from veridical.core.types import Usage
from veridical.llm.cache_locks import LEASE, Leases
from veridical.llm.protocol import ChatModel, Failure, Incremental, Reply, Request, TokenLogprob

__all__ = ["Cached", "request_key"]

FORMAT = 1
APPLICATION = 0x56445243  # "VDRC": marks the file as ours
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, model TEXT, stage TEXT, prompt TEXT, reply TEXT NOT NULL, made TEXT DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID"""


def request_key(request: Request, *, model: str, identity: str = "", nth: int = 0) -> str:
    """The SHA-256 of all that decides a reply: model, server, messages, parameters and the prompt's version.

    `nth` tells samples apart: the same request, asked again with a temperature and no seed, wants another answer.
    `stage` is no part of it.
    """
    asked = astuple(replace(request, stage=""))
    text = json.dumps(["veridical reply", FORMAT, model, identity, nth, asked], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Cached:
    """`model` with its replies kept in the file `path`, which is made where it is not there.

    A reply that was kept comes back with `cached=True` and a usage of nothing. A request that occurs twice in one batch
    is asked once, unless it is to be sampled (a temperature and no seed): then each occurrence has a reply of its own.
    Each reply is kept as soon as it is there: a run that is broken off goes on where it was. What another process or
    thread is asking at this moment is waited for, not asked again; one that died is waited for `lease` seconds at most.

    Raises `InputError` for a file that is not such a cache or is damaged, `OutputError` for one that cannot be written.
    """

    def __init__(self, model: ChatModel, path: str | Path, *, lease: float = LEASE) -> None:
        self.model = model
        self.lease = lease
        self.name = model.name
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Cached({self.model!r}, {str(self.path)!r})"

    def __getattr__(self, name: str) -> Any:
        if name in ("identity", "logprobs", "notes", "budget"):  # what some models say of themselves
            return getattr(self.model, name)
        raise AttributeError(name)

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """One reply or failure for each request, in order; raises what the model raises."""
        keys = self._keys(requests)
        wanted = dict(zip(keys, requests, strict=True))
        fresh: dict[str, Reply | Failure] = {}
        with self._open() as file:
            kept = self._kept(file, wanted)
            missing = {key: request for key, request in wanted.items() if key not in kept}
            if missing:
                leases = Leases(self._open, self.lease)
                with leases.held(file):
                    self._pay(file, leases, missing, kept, fresh)
        return [kept[key] if key in kept else _once(fresh, key) for key in keys]

    def _pay(
        self,
        file: sqlite3.Connection,
        leases: Leases,
        missing: Mapping[str, Request],
        kept: dict[str, Reply],
        fresh: dict[str, Reply | Failure],
    ) -> None:
        """Ask for what is missing, into `fresh`; what others ask for at this moment is waited for, into `kept`."""
        waits = 0
        while missing:
            mine = leases.claim(file, missing)
            kept.update(self._kept(file, missing))  # somebody may have paid just before the claim
            asked = {key: missing[key] for key in mine if key not in kept}
            names = list(asked)
            for i, outcome in self._ask(list(asked.values())) if asked else ():
                key = names[i]
                fresh[key] = outcome
                if isinstance(outcome, Reply):
                    self._keep(file, key, asked[key], outcome)
                else:
                    leases.release(file, key)
            missing = {key: request for key, request in missing.items() if key not in kept and key not in fresh}
            if missing and not asked:
                time.sleep(min(1.0, 0.02 * 2**waits))
                waits += 1

    def _kept(self, file: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Reply]:
        return {key: reply for key in keys if (reply := self._look_up(file, key))}

    def _keys(self, requests: Sequence[Request]) -> list[str]:
        identity = getattr(self.model, "identity", "")
        seen: dict[str, int] = {}
        keys = []
        for request in requests:
            key = request_key(request, model=self.name, identity=identity)
            nth = seen[key] = seen.get(key, -1) + 1
            if nth and request.temperature > 0 and request.seed is None:
                key = request_key(request, model=self.name, identity=identity, nth=nth)
            keys.append(key)
        return keys

    def _ask(self, requests: list[Request]) -> Iterator[tuple[int, Reply | Failure]]:
        if isinstance(self.model, Incremental):
            return self.model.each(requests)
        return enumerate(self.model.chat(requests))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path.parent} cannot be made: {error.strerror}") from None
        file = None
        try:
            file = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
            self._prepare(file)
            yield file
        except sqlite3.OperationalError as error:
            raise OutputError(
                f"the reply cache {self.path} cannot be used: {error}", hint="name another file"
            ) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from None
        finally:
            if file is not None:
                file.close()

    def _prepare(self, file: sqlite3.Connection) -> None:
        [application], [version] = (file.execute(f"PRAGMA {p}").fetchone() for p in ("application_id", "user_version"))
        if application != APPLICATION and file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise self._damaged("it is another program's")
        if application == APPLICATION and version not in (0, FORMAT):
            raise self._damaged(f"it has format {version}, this Veridical reads {FORMAT}")
        if (application, version) != (APPLICATION, FORMAT):
            file.execute("PRAGMA journal_mode = WAL")
            for statement in (
                "BEGIN IMMEDIATE",
                _TABLE,
                f"PRAGMA application_id = {APPLICATION}",
                f"PRAGMA user_version = {FORMAT}",
                "COMMIT",
            ):
                file.execute(statement)
        file.execute("PRAGMA synchronous = NORMAL")

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"{self.path} is no reply cache, or it is damaged: {why}", hint="move it away; replies are then paid anew"
        )

    def _look_up(self, file: sqlite3.Connection, key: str) -> Reply | None:
        row = file.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            text, tokens, finish = json.loads(row[0])
            made = tokens and tuple(TokenLogprob(t, p, tuple((o, q) for o, q in top)) for t, p, top in tokens)
        except (ValueError, TypeError):
            raise self._damaged("a reply cannot be read") from None
        return Reply(text, made, Usage(cost=0.0), finish, cached=True)

    def _keep(self, file: sqlite3.Connection, key: str, request: Request, reply: Reply) -> None:
        tokens = None if reply.tokens is None else [astuple(token) for token in reply.tokens]
        row = (key, self.name, request.stage, request.prompt, json.dumps([reply.text, tokens, reply.finish]))
        file.execute("INSERT OR IGNORE INTO replies (key, model, stage, prompt, reply) VALUES (?, ?, ?, ?, ?)", row)


def _once(fresh: dict[str, Reply | Failure], key: str) -> Reply | Failure:
    """The fresh outcome; whoever gets it a second time did not cause it."""
    outcome = fresh[key]
    fresh[key] = (
        replace(outcome, usage=Usage(cost=0.0), cached=True)
        if isinstance(outcome, Reply)
        else replace(outcome, usage=Usage())
    )
    return outcome
