"""The settings of a server: its detectors, its access rules, its limits and its proxy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.prompts import Marker, read_marker
from veridical.core.spec import parse_spec

if TYPE_CHECKING:
    from veridical.core.detector import Detector
    from veridical.llm.connection import Connection
    from veridical.server.keys import Key

__all__ = [
    "ACTIONS",
    "DEFAULT_DETECTORS",
    "LOOPBACK_HOSTS",
    "SOURCE_ROLES",
    "Limits",
    "ProxySettings",
    "ServerSettings",
    "is_loopback",
]

DEFAULT_DETECTORS = ("default", "overlap")
ACTIONS = ("annotate", "header", "block", "revise")
SOURCE_ROLES = ("context",)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+")
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits on size, time and load. A request that exceeds a limit is refused, never cut.

    Attributes:
        body_bytes: The size of the largest JSON body.
        document_bytes: The size of the largest uploaded document.
        cases: The most cases of one request.
        sources: The most sources of one case.
        characters: The most characters of one case: response, sources, question, history and prompt together.
        memory_bytes: The most bytes of the bodies of all requests that are being answered; a request beyond gets 429.
        documents: The most uploaded documents that are read at the same time, each in a process of its own.
        document_memory: The most bytes of memory for such a process, where the operating system can limit them.
        depth: The deepest nesting of JSON.
        queue: The most cases that wait for one detector; a request that does not fit gets 429.
        batch_cases: The most cases of one batch.
        batch_characters: The most characters of one batch, unless a single case has more.
        batch_wait: Seconds that a batch waits for more cases.
        wait: The longest expected wait in seconds, by the recent speed; a request that would wait longer gets 429.
        timeout: The most seconds that a detector, a revision or the reading of a document takes for one request.
        body_timeout: Seconds until a request must have arrived, head and body; also the longest pause of a client that
            reads an answer.
        idle: Seconds that a connection without a request stays open, unless a new one needs its place. Clients and load
            balancers keep theirs for 5 to 60 seconds. It should be longer than that: if the server closes first, a
            request that was just sent gets lost.
        stream_timeout: The most seconds of a streamed response, from its beginning to its end. Any other request ends
            `body_timeout` seconds later, whatever it waits for.
        revisions: The most requests to revise at the same time.
        connections: The most connections at the same time; a further one gets 503.
        client_connections: The most connections from one address; clients behind a reverse proxy share its address.
        grace: Seconds that a shutdown waits for accepted requests.
    """

    body_bytes: int = 8 * 1024 * 1024
    document_bytes: int = 32 * 1024 * 1024
    cases: int = 64
    sources: int = 256
    characters: int = 2_000_000
    memory_bytes: int = 128 * 1024 * 1024
    documents: int = 2
    document_memory: int = 2 * 1024 * 1024 * 1024
    depth: int = 32
    queue: int = 256
    batch_cases: int = 32
    batch_characters: int = 1_000_000
    batch_wait: float = 0.002
    wait: float = 15.0
    timeout: float = 60.0
    body_timeout: float = 20.0
    idle: float = 75.0
    stream_timeout: float = 600.0
    revisions: int = 16
    connections: int = 1000
    client_connections: int = 500
    grace: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0 and name != "batch_wait":
                raise InputError(f"the limit {name} is {getattr(self, name)}", hint="a number above 0")
        if self.memory_bytes < max(self.body_bytes, self.document_bytes):
            raise InputError(
                f"the memory for bodies holds {self.memory_bytes:,} bytes, less than one body may have",
                hint="memory_bytes has to hold the largest body and the largest document",
            )
        if self.cases > self.queue:
            raise InputError(
                f"a request may hold {self.cases} cases and a queue only {self.queue}",
                hint="the queue has to hold a whole request",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The chat server behind the proxy, and what happens to its replies.

    Attributes:
        base_url: The base URL of the OpenAI-compatible server, such as http://127.0.0.1:8080/v1.
        action: "annotate": add the result of the check to the reply; "header": only set a header; "block": withhold a
            flagged reply; "revise": replace a flagged reply by its revision.
        detector: The spec of the detector to ask; None: the server's first one.
        source_roles: The roles whose messages are sources as a whole, beside "tool" and "function".
        context_markers: Where a context is in messages of system and user, as "BEFORE...AFTER", beside known prompts.
        blocks: Whether to withhold a reply that could not be checked; None: only if the action is "block".
        key_env: The environment variable that holds the key of the chat server; None: forward the client's key.
        reply_bytes: The size of the largest reply that is accepted.
        timeout: Seconds until the chat server must have answered.

    Raises:
        InputError: The action is unknown, there is no role, or a marker has no beginning.
    """

    base_url: str
    action: str = "annotate"
    detector: str | None = None
    source_roles: tuple[str, ...] = SOURCE_ROLES
    context_markers: tuple[str, ...] = ()
    blocks: bool | None = None
    key_env: str | None = None
    reply_bytes: int = 8 * 1024 * 1024
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise UnknownNameError("action", self.action, ACTIONS)
        if not self.source_roles:
            raise InputError("no role of messages that are sources", hint="such as tool,context")
        self.markers  # noqa: B018 - raise for a marker that cannot be read

    @property
    def markers(self) -> list[Marker]:
        """The `context_markers`, read."""
        return [read_marker(text) for text in self.context_markers]

    @property
    def blocks_unavailable(self) -> bool:
        """Whether a reply that could not be checked is withheld."""
        return self.action == "block" if self.blocks is None else self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server.

    Attributes:
        detectors: The specs that requests may name. A request that names none gets the first.
        own_detectors: Further detectors by name, made in Python.
        connection: How detectors reach their chat model.
        keys: The API keys that clients must have; empty: no key is needed.
        cors: The origins whose pages may use the service from a browser; "*" for all.
        hosts: The allowed values of the `Host` header, without a port; empty: any. Without keys, on a loopback address,
            allow only the loopback names: otherwise pages of other sites could reach the service (DNS rebinding).
        proxy: The chat server whose replies are checked; None: no proxy.
        reviser: The default reviser (`veridical.revise.named`); None: "factored" if the connection has a model, else
            "delete".
        log_text: Whether the log holds the texts of requests.
        limits: The limits on requests.

    Raises:
        InputError: There is no detector, a detector is named twice, a spec cannot be read, or an origin is not one.
    """

    detectors: tuple[str, ...] = DEFAULT_DETECTORS
    own_detectors: Mapping[str, Detector] = field(default_factory=dict)
    connection: Connection | None = None
    keys: tuple[Key, ...] = ()
    cors: tuple[str, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    proxy: ProxySettings | None = None
    reviser: str | None = None
    log_text: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        names = [*(str(parse_spec(spec)) for spec in self.detectors), *self.own_detectors]
        if not names:
            raise InputError("no detector is named", hint=f"the usual ones: {', '.join(DEFAULT_DETECTORS)}")
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"the detector {name} is named twice", hint="name each once")
        for origin in self.cors:
            if origin != "*" and not _ORIGIN.fullmatch(origin):  # no page would ever have it
                raise InputError(f"{origin!r} is not an origin", hint="such as https://example.org, without a path")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
