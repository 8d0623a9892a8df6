"""A knowledge base of topics with their perspectives and arguments: one SQLite file with full-text search."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

from veridical.io.files import replacing
from veridical.records.errors import DataError, InputError, OutputError
from veridical.records.strings import shorten
from veridical.text.segment import words
from veridical.text.stemmer import stem
from veridical.text.stopwords import STOP_WORDS
from veridical_lab.datasets.topics import Argument, Topic, normal_form

APPLICATION = 0x5644524B  # "VDRK": marks the file as ours
FORMAT = 1
_SCHEMA = """
CREATE TABLE topics (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, key TEXT NOT NULL);
CREATE TABLE arguments (
    number INTEGER PRIMARY KEY, topic INTEGER NOT NULL REFERENCES topics, id TEXT NOT NULL, perspective TEXT NOT NULL,
    text TEXT NOT NULL, paraphrases TEXT NOT NULL, UNIQUE (topic, id)
);
CREATE INDEX topic_keys ON topics (key);
CREATE VIRTUAL TABLE topic_words USING fts5 (text, content = 'topics', content_rowid = 'number', tokenize = 'porter');
CREATE VIRTUAL TABLE argument_words USING fts5 (
    text, content = 'arguments', content_rowid = 'number', tokenize = 'porter'
);
"""
_CANDIDATES = 20  # maximum number of topics, and of arguments, that are compared with a query
_ENOUGH = 0.48  # minimum score of a match, fitted and tested by `refusal.py` on one half of its questions each
_MOST_WORDS = 40  # maximum number of content words of a query that are searched
_BELIEF = re.compile(r"(?<!\w)(\w{5,})is[mt]s?")
_MOST_MATCHES = 2_000  # maximum number of ranked arguments; frequent words are dropped if there would be more
_NO_TOPIC = frozenset("bad better good idea opinion opinions right think thought time view views wrong".split())  # noqa: SIM905
_DEMANDS = frozenset(  # words for what should be done about a topic; they weigh half
    """
    abolish abolished allow allowed ban banned bans forbid forbidden illegal legal outlaw outlawed permit permitted
    prohibit prohibited stop stopped
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a knowledge base.

    `one_sided` counts topics whose arguments are all for the same perspective.
    """

    topics: int
    arguments: int
    perspectives: int
    one_sided: int


@dataclass(frozen=True, slots=True)
class FoundArgument:
    """An argument that a search found, with the id and text of its topic."""

    argument: Argument
    topic_id: str
    topic: str


class KnowledgeBase:
    """Reads a knowledge base from a file.

    Raises:
        DataError: There is no such file, or it is not a knowledge base.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError("no such knowledge base", path=path, hint="make one: veridical kb build FILE DATA")
        self._db = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        try:
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError:
            application = version = None
        if (application, version) != (APPLICATION, FORMAT):
            self._db.close()
            raise DataError("not a knowledge base", path=path, hint="make one: veridical kb build FILE DATA")

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @classmethod
    def build(cls, path: str | Path, topics: Iterable[Topic]) -> KnowledgeBase:
        """Write a knowledge base to a file and open it. If something fails, nothing is written.

        Raises:
            InputError: There are no topics, or two topics have the same id.
            OutputError: The file cannot be written. If there is an earlier file, it is unchanged.
        """
        path = Path(path)
        try:
            with replacing(path) as part, closing(sqlite3.connect(part, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = OFF")
                db.execute("PRAGMA synchronous = OFF")  # `replacing` syncs the whole file
                db.executescript(_SCHEMA)
                db.execute("BEGIN")
                if _insert(db, topics) == 0:
                    raise InputError("there is no topic to keep", hint="name data with topics and arguments")
                for table in ("topic_words", "argument_words"):
                    db.execute(f"INSERT INTO {table} ({table}) VALUES ('rebuild')")
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {FORMAT}")
                db.execute("COMMIT")
        except (OSError, sqlite3.OperationalError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OutputError(f"cannot write {path}: {reason}", hint="choose another place") from None
        return cls(path)

    def size(self) -> Size:
        """Count topics, arguments, perspectives and one-sided topics."""
        counts = self._rows("SELECT topic, COUNT(*), COUNT(DISTINCT perspective) FROM arguments GROUP BY topic")
        perspectives = self._rows("SELECT COUNT(DISTINCT perspective) FROM arguments")[0][0]
        return Size(len(counts), sum(n for _, n, _ in counts), perspectives, sum(sides < 2 for _, _, sides in counts))

    def topics(self) -> Iterator[Topic]:
        """Yield all topics, in the order in which they were added."""
        for (number,) in self._rows("SELECT number FROM topics ORDER BY number"):
            yield self._topic(number)

    def topic(self, query: str) -> Topic:
        """Find the topic with this id or text, or else the topic that the query is about (`match`).

        Raises:
            InputError: There is no such topic. The hint names the closest topics.
        """
        topic, score = self.match(query)
        if topic is None or score < _ENOUGH:
            raise InputError(f"no topic {shorten(query, 80)!r} in {self.path}", hint=self._nearest(query))
        return topic

    def match(self, query: str) -> tuple[Topic | None, float]:
        """Find the topic that matches a query best, with its score in [0, 1]. If no word matches, return None and 0.

        The score is 1 if the query is the id or the text of a topic, or if the topic's text together with one of its
        arguments has all content words (stems) of the query. Otherwise, the score is the harmonic mean of two
        proportions, in which rare words have more weight:

        * how many of the query's content words are in the topic's text or in one of its arguments;
        * how many words of the topic's text are in the query.
        """
        exact = self._rows(
            "SELECT number FROM topics WHERE id = ? OR key = ? ORDER BY id != ?, number LIMIT 1",
            query,
            normal_form(query),
            query,
        )
        if exact:
            return self._topic(exact[0][0]), 1.0
        counts = self._counts(query)
        ((n,),) = self._rows("SELECT (SELECT COUNT(*) FROM arguments) + (SELECT COUNT(*) FROM topics)")

        def weights_of(counts: Mapping[str, int]) -> dict[str, float]:
            weights = {word: log((n + 1) / (count + 1)) + 1.0 for word, count in counts.items()}
            return {_stem(word): weight / (1 + (word in _DEMANDS)) for word, weight in weights.items()}

        def share(weights: Mapping[str, float], stems: Iterable[str]) -> float:
            return sum(weights[word] for word in weights.keys() & set(stems)) / (sum(weights.values()) or 1.0)

        weights, query_words = weights_of(counts), _match(counts)
        candidates = self._rows(
            "SELECT topics.number, topics.text, '' FROM topic_words JOIN topics ON topics.number = topic_words.rowid "
            "WHERE topic_words MATCH ? ORDER BY topic_words.rank, topics.number LIMIT ?",
            query_words,
            _CANDIDATES,
        )
        candidates += self._rows(
            "SELECT topics.number, topics.text, arguments.text FROM argument_words "
            "JOIN arguments ON arguments.number = argument_words.rowid JOIN topics ON topics.number = arguments.topic "
            "WHERE argument_words MATCH ? ORDER BY argument_words.rank, arguments.number LIMIT ?",
            query_words,
            _CANDIDATES,
        )
        shares = [share(weights, _stems(f"{text} {argument}")) for _, text, argument in candidates]
        best, best_number = (0.0, 0.0), None
        for i in sorted(range(len(candidates)), key=lambda i: (-shares[i], i)):
            number, text, _ = candidates[i]
            if best[1] >= 2 * shares[i] / (1 + shares[i]):
                break  # even if all of its own words were in the query, the mean would not exceed the best
            of_topic = share(weights_of(self._counts(text)), weights)
            mean = 2 * shares[i] * of_topic / (shares[i] + of_topic) if of_topic else 0.0
            score = (1.0 if shares[i] > 1 - 1e-9 else mean, mean)
            if best_number is None or score > best:
                best, best_number = score, number
        return (None, 0.0) if best_number is None else (self._topic(best_number), best[0])

    def search(self, query: str, limit: int = 10) -> list[FoundArgument]:
        """Find the arguments that match a query, best first (BM25 over stems). Ties are in the order of insertion."""
        columns = "arguments.id, arguments.perspective, arguments.text, arguments.paraphrases"
        rows = self._rows(
            f"SELECT topics.id, topics.text, {columns} FROM argument_words "
            "JOIN arguments ON arguments.number = argument_words.rowid JOIN topics ON topics.number = arguments.topic "
            "WHERE argument_words MATCH ? ORDER BY argument_words.rank, arguments.number LIMIT ?",
            _match(self._counts(query)),
            limit,
        )
        return [FoundArgument(_argument(*argument), id, text) for id, text, *argument in rows]

    def _counts(self, query: str) -> dict[str, int]:
        """Count the arguments and topics that have each content word of the query. The rarest words come first."""
        tables = ("argument_words", "topic_words")
        sql = " + ".join(f"(SELECT COUNT(*) FROM {table} WHERE {table} MATCH ?1)" for table in tables)
        counts = {}
        for word in _content_words(query)[:_MOST_WORDS]:
            counts[word] = self._rows(f"SELECT {sql}", _match({word: 0}))[0][0]
        return dict(sorted(counts.items(), key=lambda pair: pair[1]))

    def _nearest(self, query: str) -> str:
        from rapidfuzz import fuzz, process, utils

        texts = list(dict.fromkeys(text for (text,) in self._rows("SELECT text FROM topics ORDER BY number")))
        close = process.extract(query, texts, scorer=fuzz.token_set_ratio, processor=utils.default_process, limit=3)
        names = " or ".join(repr(shorten(text, 80)) for text, *_ in close)
        return f"did you mean {names}? all of them: veridical kb show {self.path}"

    def _topic(self, number: int) -> Topic:
        ((id, text),) = self._rows("SELECT id, text FROM topics WHERE number = ?", number)
        columns = "id, perspective, text, paraphrases"
        rows = self._rows(f"SELECT {columns} FROM arguments WHERE topic = ? ORDER BY number", number)
        return Topic(id, text, tuple(_argument(*row) for row in rows))

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise DataError(f"the knowledge base is damaged: {error}", path=self.path, hint="build it again") from None


def _insert(db: sqlite3.Connection, topics: Iterable[Topic]) -> int:
    seen: set[str] = set()
    for number, topic in enumerate(topics, 1):
        if topic.id in seen:
            raise InputError(f"two topics have the id {topic.id!r}", hint="build one knowledge base of each file")
        seen.add(topic.id)
        row = (number, topic.id, topic.text, normal_form(topic.text))
        db.execute("INSERT INTO topics VALUES (?, ?, ?, ?)", row)
        db.executemany(
            "INSERT INTO arguments (topic, id, perspective, text, paraphrases) VALUES (?, ?, ?, ?, ?)",
            [
                (number, a.id, a.perspective, a.text, json.dumps(a.paraphrases, ensure_ascii=False))
                for a in topic.arguments
            ],
        )
    return len(seen)


def _argument(id: str, perspective: str, text: str, paraphrases: str) -> Argument:
    return Argument(id, perspective, text, tuple(json.loads(paraphrases)))


def _content_words(text: str) -> list[str]:
    """Return the distinct words of a text, in lower case, that can name its topic, or all words if none can."""
    distinct = list(dict.fromkeys(span.of(text).casefold() for span in words(text)))
    return [word for word in distinct if word not in STOP_WORDS and word not in _NO_TOPIC] or distinct


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in _content_words(text)}


def _stem(word: str) -> str:
    """Stem a word. "capitalism" and "capitalist" share a stem, which differs from the stem of "capital"."""
    return _BELIEF.sub(r"\1ism", word) if _BELIEF.fullmatch(word) else stem(word)


def _match(counts: Mapping[str, int]) -> str:
    """Build a full-text query for any of the words, rarest first, with at most `_MOST_MATCHES` matches in total."""
    chosen: list[str] = []
    matches = 0
    for word, count in counts.items():
        if matches and matches + count > _MOST_MATCHES:
            break
        matches += count
        chosen.append('"' + word.replace('"', '""') + '"')
    return " OR ".join(chosen) or '""'
