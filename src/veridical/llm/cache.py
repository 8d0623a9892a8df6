"""Store the replies of a chat model in an SQLite file, so that only new requests are sent.

Several threads and processes can use the same file. The file contains the replies and a hash of each request, but no
texts of requests and no failures. A stored reply is returned only to users of the same API key with which it was
requested. A new file can be read only by its owner.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from veridical.llm.protocol import (
    ChatModel,
    Failure,
    Incremental,
    Reply,
    Request,
    TokenLogprob,
    WithAccess,
    model_fingerprint,
)
from veridical.records.errors import InputError, OutputError
from veridical.records.types import Usage

FORMAT = 1
APPLICATION = 0x56445243  # "VDRC": marks the file as ours
LOCK_TIMEOUT = 30.0  # seconds to wait for another process that is writing
_TABLE = """CREATE TABLE replies (
    key TEXT PRIMARY KEY, model TEXT, stage TEXT, prompt TEXT, reply TEXT NOT NULL, made TEXT DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID"""
_INSERT = "INSERT OR IGNORE INTO replies (key, model, stage, prompt, reply) VALUES (?, ?, ?, ?, ?)"


def request_key(request: Request, fingerprint: Mapping[str, Any], nth: int = 0) -> str:
    """Compute the key of a request in the cache: a SHA-256 hash of everything that its reply depends on.

    This includes the model, the server, the messages, the parameters and the version of the prompt.

    Args:
        request: The request. Its `stage` is not part of the key.
        fingerprint: The fingerprint of the model (`model_fingerprint`).
        nth: The number of earlier requests in the batch that are the same. It matters only for sampled requests (with a
            temperature and without a seed), which should get another reply each time and so need different keys.
    """
    parameters = astuple(replace(request, stage=""))
    text = json.dumps(["veridical reply", FORMAT, fingerprint, nth, parameters], ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class _InFlight:
    """Tracks which requests the threads of this process are sending, as pairs (cache file, key)."""

    def __init__(self) -> None:
        self._keys: set[tuple[Path, str]] = set()
        self._changed = threading.Condition()

    def claim(self, path: Path, keys: Iterable[str]) -> list[str]:
        """Claim and return the keys that no other thread has claimed.

        If other threads have claimed all of them, wait until one is released.
        """
        with self._changed:
            while not (free := [key for key in keys if (path, key) not in self._keys]):
                self._changed.wait()
            self._keys.update((path, key) for key in free)
            return free

    def release(self, path: Path, keys: Iterable[str]) -> None:
        """Give up the claim on `keys`."""
        with self._changed:
            self._keys.difference_update((path, key) for key in keys)
            self._changed.notify_all()


_IN_FLIGHT = _InFlight()


class Cached:
    """Wraps a chat model to store its replies in a file, and to answer repeated requests from the file.

    The file is created if it is missing. A stored reply is returned with `cached=True` and without a cost. If a request
    occurs twice in one batch, it is sent only once. Sampled requests (with a temperature and without a seed) are an
    exception, because each of them should have its own reply.

    Replies are stored as soon as they arrive, so an interrupted run continues where it stopped. If another thread has
    already sent the same request, this thread waits for its reply.

    Raises:
        InputError: The file is not a reply cache, or is damaged.
        OutputError: The file cannot be written.
    """

    def __init__(self, model: ChatModel, path: str | Path) -> None:
        self.model = model
        self.name = model.name
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Cached({self.model!r}, {str(self.path)!r})"

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the wrapped model, as JSON, because the cache does not change its replies."""
        return model_fingerprint(self.model)

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer each request with one reply or failure, in order, and send only requests without a stored reply.

        Replies are stored, and failures are not. Errors of the model are not caught.
        """
        keys = self._keys(requests)
        missing = dict(zip(keys, requests, strict=True))
        outcomes: dict[str, Reply | Failure] = {}
        with self._open() as file:
            while missing:
                outcomes.update(self._stored(file, missing))
                missing = {key: request for key, request in missing.items() if key not in outcomes}
                if missing:
                    self._ask(file, missing, outcomes)
                missing = {key: request for key, request in missing.items() if key not in outcomes}
        results = []
        for key in keys:
            outcome = outcomes[key]
            results.append(outcome)
            if isinstance(outcome, Reply):  # a repeated request adds no cost
                outcomes[key] = replace(outcome, usage=Usage(cost=0.0), cached=True)
            else:
                outcomes[key] = replace(outcome, usage=Usage())
        return results

    def _keys(self, requests: Sequence[Request]) -> list[str]:
        """Return the key of each request; repeated sampled requests get different keys."""
        fingerprint = model_fingerprint(self.model)
        if isinstance(self.model, WithAccess) and (access := self.model.access()) is not None:
            fingerprint["access"] = access
        counts: dict[str, int] = {}
        keys = []
        for request in requests:
            key = request_key(request, fingerprint)
            nth = counts[key] = counts.get(key, -1) + 1
            if nth and request.temperature > 0 and request.seed is None:
                key = request_key(request, fingerprint, nth)
            keys.append(key)
        return keys

    def _ask(
        self, file: sqlite3.Connection, missing: Mapping[str, Request], outcomes: dict[str, Reply | Failure]
    ) -> None:
        """Send the `missing` requests that no other thread is sending, and add their outcomes to `outcomes`."""
        path = self.path.resolve()
        claimed = _IN_FLIGHT.claim(path, missing)
        try:
            stored = self._stored(file, claimed)  # another thread may have got it just before the claim
            outcomes.update(stored)
            keys = [key for key in claimed if key not in stored]
            requests = [missing[key] for key in keys]
            if isinstance(self.model, Incremental):
                answers = self.model.each(requests) if requests else iter(())
            else:
                answers = iter(enumerate(self.model.chat(requests)))
            for i, outcome in answers:
                outcomes[keys[i]] = outcome
                if isinstance(outcome, Reply):
                    tokens = outcome.tokens and [astuple(token) for token in outcome.tokens]
                    about = (keys[i], self.name, requests[i].stage, requests[i].prompt)
                    file.execute(_INSERT, (*about, json.dumps([outcome.text, tokens, outcome.finish])))
                _IN_FLIGHT.release(path, [keys[i]])
        finally:
            _IN_FLIGHT.release(path, claimed)

    def _stored(self, file: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Reply]:
        """Return the replies in the file, by key."""
        replies = {}
        for key in keys:
            row = file.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            if row is None:
                continue
            try:
                text, tokens, finish = json.loads(row[0])
                tokens = tokens and tuple(TokenLogprob(t, p, tuple((o, q) for o, q in top)) for t, p, top in tokens)
            except (ValueError, TypeError):
                raise self._damaged("a reply cannot be read") from None
            replies[key] = Reply(text, tokens, Usage(cost=0.0), finish, cached=True)
        return replies

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file, and translate the errors of SQLite inside the context."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDONLY, 0o600))  # SQLite gives its other files the same mode
        except OSError as error:
            raise OutputError(
                f"the reply cache {self.path} cannot be used: {error.strerror}", hint="name another file"
            ) from None
        file = None
        try:
            file = sqlite3.connect(self.path, timeout=LOCK_TIMEOUT, isolation_level=None)
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
        """Create the table in a new file, in one transaction, so that one process creates it and all others find it."""
        give_up = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                [application] = file.execute("PRAGMA application_id").fetchone()
                if application != APPLICATION:
                    file.execute("BEGIN IMMEDIATE")
                    [application] = file.execute("PRAGMA application_id").fetchone()
                    if application != APPLICATION:
                        if file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                            raise self._damaged("it is another program's")
                        file.execute(_TABLE)
                        file.execute(f"PRAGMA user_version = {FORMAT}")
                        file.execute(f"PRAGMA application_id = {APPLICATION}")
                    file.execute("COMMIT")
                file.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if file.in_transaction:
                    file.execute("ROLLBACK")
                busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
        [version] = file.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            raise self._damaged(f"it has format {version}, this Veridical reads {FORMAT}")
        file.execute("PRAGMA synchronous = NORMAL")

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"{self.path} is not a reply cache, or it is damaged: {why}",
            hint="move it away; replies are then paid for again",
        )
