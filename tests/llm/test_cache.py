"""The reply cache: nothing is paid twice, whoever asks, and a damaged file says so."""

from __future__ import annotations

import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.llm.loopback import ask, completion, serving
from tests.processes import LIMIT
from veridical.llm.cache import Cached, request_key
from veridical.llm.openai import OpenAIChat
from veridical.llm.protocol import Failure, Message, Reply, Request, TokenLogprob
from veridical.llm.scripted import Scripted
from veridical.records.errors import CannotJudgeError, InputError, OutputError, VeridicalError
from veridical.records.types import Usage


def texts(replies: Iterable[Reply | Failure]) -> list[str]:
    return [reply.text for reply in replies if isinstance(reply, Reply)]


def test_a_kept_reply_is_the_reply_and_costs_nothing(tmp_path: Path) -> None:
    tokens = (TokenLogprob(" Yes", -0.25, ((" Yes", -0.25), ("No", -inf))), TokenLogprob("é\n", -1.5))
    answer = Reply("Yes “é”\n", tokens, Usage(1, 5, 2, 0.01), "length")
    model = Scripted([answer])
    first, again = (Cached(model, tmp_path / "a" / "c.db").chat([ask("x")])[0] for _ in range(2))
    assert first == answer
    assert again == replace(answer, cached=True, usage=Usage(cost=0.0))
    assert len(model.requests) == 1


def test_failures_are_never_kept(tmp_path: Path) -> None:
    model = Scripted([Failure("no", "server", True), "Yes"])
    cached = Cached(model, tmp_path / "c.db")
    assert isinstance(cached.chat([ask("x")])[0], Failure)
    assert isinstance(cached.chat([ask("x")])[0], Reply)


def test_only_what_is_missing_is_asked_and_order_holds(tmp_path: Path) -> None:
    model = Scripted(lambda request: request.messages[0].content.upper())
    cached = Cached(model, tmp_path / "c.db")
    cached.chat([ask("b"), ask("d")])
    replies = cached.chat([ask(t) for t in "abcda"])
    assert texts(replies) == list("ABCDA")
    assert [r.cached for r in replies if isinstance(r, Reply)] == [False, True, False, True, True]
    assert [r.messages[0].content for r in model.requests] == list("bdac")


def test_everything_that_decides_a_reply_is_in_the_key() -> None:
    changes: list[dict[str, Any]] = [{"temperature": 0.1}, {"max_tokens": 9}, {"top_logprobs": 0}, {"stop": ("a",)}]
    changes += [{"seed": 0}, {"prompt": "v2"}, {"prefill": "Yes"}]
    requests = [ask("x"), ask("y"), *(ask("x", **change) for change in changes), Request((Message("system", "x"),))]
    requests.append(Request((Message("user", "x"), Message("user", ""))))
    keys = [request_key(request, {"model": "m"}) for request in requests]
    keys += [request_key(ask("x"), about) for about in ({"model": "n"}, {"model": "m", "server": "http://b"})]
    assert len(set(keys)) == len(keys)
    assert request_key(ask("x", stage="another"), {"model": "m"}) == keys[0]
    assert keys[0].startswith("7d095ef5309f005c"), "stored replies would be paid for again"


def test_replies_of_the_same_name_on_another_server_are_kept_apart(tmp_path: Path) -> None:
    class OnServer(Scripted):
        def __init__(self, server: str) -> None:
            super().__init__(lambda request: server)
            self.server = server

        def fingerprint(self) -> dict[str, str]:
            return {"model": self.name, "server": self.server}

    for _ in range(2):
        replies = [Cached(OnServer(server), tmp_path / "c.db").chat([ask("x")])[0] for server in "ab"]
        assert texts(replies) == ["a", "b"]
    assert Cached(OnServer("a"), tmp_path / "c.db").fingerprint() == {"model": "scripted", "server": "a"}
    assert Cached(Scripted([]), tmp_path / "c.db").fingerprint() == {"model": "scripted"}


def test_a_reply_comes_back_only_to_the_key_and_the_headers_that_it_was_paid_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda body: completion("Yes")) as server:

        def cached(key: str | None, **headers: str) -> bool:
            if key is not None:
                monkeypatch.setenv("KEY", key)
            model = OpenAIChat("m", base_url=server.url, key_env=key and "KEY", headers=headers)
            (reply,) = Cached(model, tmp_path / "c.db").chat([ask("x")])
            assert isinstance(reply, Reply)
            return reply.cached

        ways: list[tuple[str | None, dict[str, str]]] = [(None, {}), ("a", {}), ("b", {}), ("a", {"X-Tenant": "1"})]
        ways += [("a", {"X-Tenant": "2"})]
        assert [cached(key, **headers) for key, headers in ways] == [False] * 5
        assert [cached(key, **headers) for key, headers in ways] == [True] * 5
        assert cached("a", **{"x-tenant": "2"})


def test_only_its_owner_can_read_a_cache(tmp_path: Path) -> None:
    cached = Cached(Scripted(["Yes"]), tmp_path / "c.db")
    with cached._open():
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"c.db": 0o600, "c.db-shm": 0o600, "c.db-wal": 0o600}


def test_samples_of_one_request_are_kept_apart_and_come_back(tmp_path: Path) -> None:
    count = iter(range(100))
    cached = Cached(Scripted(lambda request: str(next(count))), tmp_path / "c.db")
    sample = ask("x", temperature=1.0)
    assert texts(cached.chat([sample] * 3)) == ["0", "1", "2"]
    assert texts(cached.chat([sample] * 4)) == ["0", "1", "2", "3"]
    assert texts(cached.chat([ask("x")] * 3)) == ["4", "4", "4"]


def test_what_came_before_a_run_died_is_kept(tmp_path: Path) -> None:
    class Dying(Scripted):
        def each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply | Failure]]:
            for i in reversed(range(len(requests))):
                if i == 1:
                    raise KeyboardInterrupt
                yield i, Reply(str(i))

    with pytest.raises(KeyboardInterrupt):
        Cached(Dying([]), tmp_path / "c.db").chat([ask(t) for t in "abcd"])
    model = Scripted(["a", "b"])
    replies = Cached(model, tmp_path / "c.db").chat([ask(t) for t in "abcd"])
    assert texts(replies) == ["a", "b", "2", "3"]


def test_processes_share_a_cache(tmp_path: Path) -> None:
    code = """
import sys
from veridical.llm import Message, Request
from veridical.llm.cache import Cached
from veridical.llm.scripted import Scripted
cached = Cached(Scripted(lambda r: r.messages[0].content * 2), sys.argv[1])
for start in range(int(sys.argv[2]), 300, 10):
    requests = [Request((Message("user", str(i)),)) for i in range(start, start + 20)]
    assert [r.text for r in cached.chat(requests)] == [str(i) * 2 for i in range(start, start + 20)]
"""
    command = [sys.executable, "-c", code, str(tmp_path / "c.db")]
    runs = [subprocess.Popen([*command, str(k)], stderr=subprocess.PIPE, text=True) for k in (0, 3)]
    assert [run.communicate(timeout=LIMIT)[1] for run in runs] == ["", ""]
    with sqlite3.connect(tmp_path / "c.db") as file:
        assert file.execute("SELECT count(*), count(DISTINCT key) FROM replies").fetchone() == (313, 313)
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()
    model = Scripted([])
    assert all(isinstance(r, Reply) for r in Cached(model, tmp_path / "c.db").chat([ask(str(i)) for i in range(300)]))
    assert not model.requests


@pytest.mark.parametrize("damage", ["text", "half", "another program's", "a reply", "format"])
def test_a_damaged_file_says_so(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    cached = Cached(Scripted(lambda request: "a" * 500), path)
    if damage == "text":
        path.write_text("this is no database, but long enough to have been one " * 100)
    elif damage == "another program's":
        with sqlite3.connect(path) as file:
            file.execute("CREATE TABLE mine (x)")
        file.close()
    else:
        cached.chat([ask(str(i)) for i in range(100)])
        if damage == "half":
            raw = path.read_bytes()
            path.write_bytes(raw[:5000] + b"\xff" * (len(raw) - 5000))
        else:
            what = "UPDATE replies SET reply = '[1'" if damage == "a reply" else "PRAGMA user_version = 9"
            with sqlite3.connect(path) as file:
                file.execute(what)
            file.close()
    with pytest.raises(InputError, match=r"c\.db is not a reply cache, or it is damaged"):
        cached.chat([ask(str(i)) for i in range(100)])


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        Cached(Scripted(["a"]), tmp_path / "file" / "c.db").chat([ask("x")])
    with pytest.raises(OutputError):
        Cached(Scripted(["a"]), tmp_path).chat([ask("x")])


class Counting(Scripted):
    """Answers only once `go` is set, and says that it was asked."""

    def __init__(self, script: Any = lambda request: request.messages[0].content.upper()) -> None:
        super().__init__(script)
        self.asked, self.go = threading.Event(), threading.Event()

    def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        self.asked.set()
        assert self.go.wait(LIMIT)
        return super().chat(requests)


def together(first: Cached, second: Cached, one: Sequence[str], two: Sequence[str]) -> list[list[Reply | Failure]]:
    """`first` is asked for `one` and, while it has no answer yet, `second` for `two`."""
    with ThreadPoolExecutor(2) as pool:
        a = pool.submit(first.chat, [ask(t) for t in one])
        assert first.model.asked.wait(LIMIT)
        b = pool.submit(second.chat, [ask(t) for t in two])
        if set(two) - set(one):  # what only the second wants it asks for itself, before it waits
            assert second.model.asked.wait(LIMIT)
        first.model.go.set()
        return [a.result(20), b.result(20)]


def test_two_at_the_same_moment_pay_once(tmp_path: Path) -> None:
    first, second = (Cached(Counting(), tmp_path / "c.db") for _ in range(2))
    second.model.go.set()
    a, b = together(first, second, "abc", "cbd")
    assert texts([*a, *b]) == list("ABCCBD")
    assert [r.messages[0].content for r in first.model.requests] == list("abc")
    assert [r.messages[0].content for r in second.model.requests] == ["d"]
    assert [r.cached for r in b if isinstance(r, Reply)] == [True, True, False]


def test_who_waits_for_a_failure_asks_itself(tmp_path: Path) -> None:
    failing = Counting(lambda request: Failure("no", "server", True))
    first, second = Cached(failing, tmp_path / "c.db"), Cached(Counting(), tmp_path / "c.db")
    second.model.go.set()
    a, b = together(first, second, "a", "a")
    assert isinstance(a[0], Failure)
    assert isinstance(b[0], Reply)


def test_two_that_wait_for_each_other_both_end(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        made = [Cached(Scripted(lambda r: r.messages[0].content), tmp_path / "c.db") for _ in range(2)]
        asked = [[str(i) for i in range(200)], [str(i) for i in reversed(range(200))]]
        results = list(pool.map(lambda pair: pair[0].chat([ask(t) for t in pair[1]]), zip(made, asked, strict=True)))
    assert [texts(several) for several in results] == asked
    assert sum(len(cached.model.requests) for cached in made) == 200


def test_a_request_that_raises_is_free_for_others_at_once(tmp_path: Path) -> None:
    class Broken(Scripted):
        def chat(self, requests: Sequence[Request]) -> list[Reply | Failure]:
            raise CannotJudgeError("no key")

    with pytest.raises(CannotJudgeError):
        Cached(Broken([]), tmp_path / "c.db").chat([ask("a")])
    [reply] = Cached(Scripted(["A"]), tmp_path / "c.db").chat([ask("a")])
    assert isinstance(reply, Reply)


def open_together(folder: Path, barrier: Any, rounds: int, problems: Any) -> None:
    """In a process of its own: open new caches at the same moments as the others do."""
    for i in range(rounds):
        barrier.wait(LIMIT)
        try:
            Cached(Scripted(lambda request: "A"), folder / f"{i}.db").chat([ask("a")])
        except VeridicalError as error:
            problems.put(f"{i}: {error!r}")


def test_processes_that_open_a_new_cache_at_once_all_succeed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    rounds, barrier, problems = 40, context.Barrier(4), context.Queue()
    processes = [
        context.Process(target=open_together, args=(tmp_path, barrier, rounds, problems), daemon=True) for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT)
    assert [process.exitcode for process in processes] == [0] * 4
    assert problems.empty(), problems.get()
    for i in range(rounds):
        with sqlite3.connect(tmp_path / f"{i}.db") as file:
            assert file.execute("SELECT count(*) FROM replies").fetchone() == (1,)
            assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        file.close()
