"""Index the words in the cases of a history, with FTS5 of SQLite or a text search vector of PostgreSQL.

Veridical splits texts into words itself, and removes accents and capitals. Both databases therefore find the same
words, also in scripts without spaces.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Select, column, func, select, table, text

from veridical.text.segment import word_forms

TABLE = "search"
_INDEX = table(TABLE, column("rowid"), column("words"))
_STEP = 500  # pages of the index that are merged at once
_LONGEST = 20_000  # characters of a text that are indexed


def create(connection: Connection) -> None:
    """Create the empty table of the full-text index."""
    if connection.dialect.name == "sqlite":
        options = "tokenize = \"unicode61 remove_diacritics 0\", prefix = '1 2 3'"
        connection.execute(text(f"CREATE VIRTUAL TABLE search USING fts5(words, {options})"))
    else:
        key = "bigint PRIMARY KEY REFERENCES cases (id) ON DELETE CASCADE"
        connection.execute(text(f"CREATE TABLE search (rowid {key}, words tsvector NOT NULL)"))
        connection.execute(text("CREATE INDEX search_words ON search USING gin (words)"))


def add(connection: Connection, texts: Iterable[tuple[int, str]]) -> None:
    """Add cases to the full-text index. Each is given as its primary key and the text to search."""
    rows = [{"id": id, "words": " ".join(_words(each[:_LONGEST]))} for id, each in texts]
    value = ":words" if connection.dialect.name == "sqlite" else "to_tsvector('simple', :words)"
    if rows:
        connection.execute(text(f"INSERT INTO search (rowid, words) VALUES (:id, {value})"), rows)


def delete(connection: Connection, ids: Sequence[int]) -> None:
    """Remove the cases with these primary keys from the full-text index.

    With PostgreSQL this does nothing, because the words are deleted along with the cases.
    """
    if connection.dialect.name == "sqlite":
        connection.execute(text("DELETE FROM search WHERE rowid = :id"), [{"id": id} for id in ids])


def purge(connection: Connection, *, begin: bool) -> bool:
    """Overwrite some of the words that deleted cases left in the index. Return True if some are left.

    By itself, SQLite only marks these words as deleted. They disappear when the parts of the index are merged into one,
    which this function does step by step. Set `begin` in the first call. Then call the function without `begin` until
    it returns False.
    """
    if connection.dialect.name != "sqlite":
        return False
    changes = text("SELECT total_changes()")
    before = connection.execute(changes).scalar_one()
    step = {"pages": -_STEP if begin else _STEP}
    connection.execute(text("INSERT INTO search (search, rank) VALUES ('merge', :pages)"), step)
    return bool(connection.execute(changes).scalar_one() - before >= 2)  # one change is the command itself


def matching(wanted: str, dialect: str) -> Select[tuple[int]] | None:
    """Build a query for the primary keys of cases that contain all words of `wanted`, in any order.

    The last word may be incomplete, so that a user gets results while typing.

    Return None if `wanted` has no word.
    """
    words = _words(wanted)
    if not words:
        return None
    if dialect == "sqlite":
        query = " ".join(f'"{word}"' for word in words) + "*"
        return select(_INDEX.c.rowid).where(_INDEX.c.words.op("MATCH")(query))
    query = " & ".join("'" + word.replace("'", "''") + "'" for word in words) + ":*"
    return select(_INDEX.c.rowid).where(_INDEX.c.words.op("@@")(func.to_tsquery("simple", query)))


def _words(text: str) -> list[str]:
    words = word_forms(text)
    if text.isascii():
        return words
    bare = (filter(lambda c: not unicodedata.combining(c), unicodedata.normalize("NFD", word)) for word in words)
    return ["".join(word).casefold() for word in bare]
