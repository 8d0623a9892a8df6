"""Find the base URL and the key of a server.

Keys are read from the environment, and never from the value of an option. They are never shown.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from veridical.records.errors import CannotJudgeError, InputError

OPENAI = "https://api.openai.com/v1"
APIS = ("chat", "completions")
"""The interfaces of a server: chat completions, and plain completions for base models."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The base URL of a server and the API key to send to it, or None if it needs no key. `repr` hides the key."""

    url: str
    key: str | None = field(repr=False)

    def scrub(self, text: str) -> str:
        """Replace the API key by *** in a text from the server or a library, such as an error message.

        Call this before you shorten the text, because a part of a key would not be recognised.
        """
        return text.replace(self.key, "***") if self.key else text

    def scrub_document(self, document: dict[str, Any]) -> None:
        """Replace the API key by *** in every text of a JSON document, including the names of fields, in place."""
        values: list[Any] = [document] if self.key else []
        while values:
            value = values.pop()
            for place, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
                if isinstance(inner, str):
                    value[place] = self.scrub(inner)
                elif isinstance(inner, dict | list):
                    values.append(inner)
                if isinstance(place, str) and self.scrub(place) != place:
                    value[self.scrub(place)] = value.pop(place)


def check_api(api: str) -> None:
    """Check that `api` is "chat" or "completions".

    Raises:
        InputError: It is neither.
    """
    if api not in APIS:
        raise InputError(f"the API is {api!r}", hint=f"one of {', '.join(APIS)}")


def resolve_url(base_url: str | None) -> str:
    """Return the base URL of the server, without a slash at its end.

    If you do not pass `base_url`, this is $OPENAI_BASE_URL, or else OpenAI's own URL.

    Raises:
        InputError: The URL is not an http(s) address, or contains a user name, a password or a query.
    """
    url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        secret = bool(parts.username or parts.password or parts.query)
    except ValueError:
        valid, secret = False, False
    if not valid or secret:
        problem = "the base URL holds a user, a password or a query" if valid else "the base URL is not an address"
        raise InputError(problem, hint="it looks like http://127.0.0.1:8000/v1; keys come from the environment")
    return url.rstrip("/")


def resolve_server(base_url: str | None, key_env: str | None) -> Endpoint:
    """Determine the base URL of the server and the API key to send to it.

    If you pass `key_env`, the key is the value of this variable. Otherwise, it is $OPENAI_API_KEY if the server is
    OpenAI's own or $OPENAI_BASE_URL. For any other `base_url`, there is no key, so that $OPENAI_API_KEY is never sent
    to it.

    Args:
        base_url: The base URL. Default: $OPENAI_BASE_URL, or OpenAI's own URL.
        key_env: The name of the environment variable with the key.

    Raises:
        CannotJudgeError: The environment variable with the key is not set, or its value is not a valid key.
        InputError: The URL is not valid (`resolve_url`).
    """
    url = resolve_url(base_url)
    if key_env is not None:
        if not os.environ.get(key_env, "").strip():
            raise CannotJudgeError(
                f"no key: ${key_env} is not set", hint=f"export {key_env}=…, or name another variable"
            )
        return Endpoint(url, _checked(os.environ[key_env], f"${key_env}"))
    if base_url is not None and url != OPENAI:
        return Endpoint(url, None)
    key = os.environ.get("OPENAI_API_KEY", "")
    if not key.strip():
        raise CannotJudgeError(
            f"no key for {url}",
            hint="export OPENAI_API_KEY=…, name another variable with --key-env (key_env= in a spec), or name the base "
            "URL of a server of your own",
        )
    return Endpoint(url, _checked(key, "$OPENAI_API_KEY"))


def _checked(key: str, place: str) -> str:
    """Return `key` without white space around it; raise `CannotJudgeError`, naming its `place`, if it is no key."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CannotJudgeError(f"{place} holds no key", hint="one line of plain characters")
    return key
