"""Where a server is and what opens it: its base URL, and the key from the environment or a file, never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from veridical.core.errors import CannotJudgeError, InputError

__all__ = ["OPENAI", "Server", "find_server", "find_url"]

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Server:
    """A server's base URL and its key (None = it needs none); the key is left out of `repr` and of `scrub`bed texts."""

    url: str
    key: str | None = field(repr=False)

    def scrub(self, text: str) -> str:
        """`text`, which may come from the server or a library, without the key."""
        return text.replace(self.key, "***") if self.key else text


def find_url(base_url: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """`base_url`, else $OPENAI_BASE_URL, else OpenAI's own; without a slash at its end.

    Raises `InputError` unless it is a plain http(s) address.
    """
    url = base_url or environment.get("OPENAI_BASE_URL") or OPENAI
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        secret = bool(parts.username or parts.password or parts.query)
    except ValueError:
        wrong, secret = True, True
    if wrong or secret:
        shown = "the base URL holds a user, a password or a query" if not wrong else "the base URL is not an address"
        raise InputError(shown, hint="it looks like http://127.0.0.1:8000/v1; keys come from the environment or a file")
    return url.rstrip("/")


def find_server(
    base_url: str | None, key_env: str | None, key_file: str | Path | None, environment: Mapping[str, str] = os.environ
) -> Server:
    """The server at `base_url` (None: $OPENAI_BASE_URL, else OpenAI's) with the key of `key_env` or `key_file`.

    Where neither is named, $OPENAI_API_KEY is used with OpenAI's own server or $OPENAI_BASE_URL, and never sent to
    another one. Raises `CannotJudgeError` for a key that is needed or named, and not there.
    """
    url = find_url(base_url, environment)
    if key_file is not None:
        return Server(url, _checked(_read(Path(key_file)), f"the key file {key_file}"))
    if key_env is not None:
        if not environment.get(key_env, "").strip():
            raise CannotJudgeError(f"no key: ${key_env} is not set", hint=f"export {key_env}=…, or name a key file")
        return Server(url, _checked(environment[key_env], f"${key_env}"))
    if base_url is not None and url != OPENAI:
        return Server(url, None)
    key = environment.get("OPENAI_API_KEY", "")
    if not key.strip():
        raise CannotJudgeError(
            f"no key for {url}", hint="export OPENAI_API_KEY=…, name a key file, or a base URL of a server of your own"
        )
    return Server(url, _checked(key, "$OPENAI_API_KEY"))


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text"
        raise CannotJudgeError(f"no key: {path} cannot be read: {why}", hint="a file that holds the key only") from None


def _checked(key: str, where: str) -> str:
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise CannotJudgeError(f"{where} holds no key", hint="one line of plain characters")
    return key
