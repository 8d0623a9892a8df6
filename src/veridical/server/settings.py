"""How a server is set up: which detectors it has, who may use it, and how much it takes at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from veridical.core.errors import InputError, UnknownNameError
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
SOURCE_ROLES = ("system", "developer", "tool", "context")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+")
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may hold and how long it may take; what is over a limit is refused, never cut.

    Attributes:
        body_bytes: The largest JSON body.
        document_bytes: The largest uploaded document.
        cases: The most cases of one request.
        sources: The most sources of one case.
        characters: The most characters of one case: response, sources, question and history together.
        depth: How deeply JSON may be nested.
        queue: The most cases that wait for one detector; a request that does not fit gets 429.
        batch_cases: The most cases of one batch.
        batch_characters: A batch holds no more characters than this, unless a single case does.
        batch_wait: Seconds that a batch waits for more cases.
        wait: Seconds that cases would have to wait, by the speed of late, from which on a request gets 429.
        timeout: Seconds that a request may wait for its answer.
        body_timeout: Seconds in which a request has to arrive, head and body, and that a client may take to read on.
        idle: Seconds that a connection is kept without a request, unless a new one needs its place. Clients and load
            balancers keep theirs for 5 to 60 seconds; who closes first breaks off what the other has just sent.
        stream_timeout: Seconds that a streamed response may take as a whole.
        revisions: The most requests to revise at once.
        connections: The most connections at once; a further one gets 503.
        grace: Seconds that a shutdown waits for what was accepted.
    """

    body_bytes: int = 8 * 1024 * 1024
    document_bytes: int = 32 * 1024 * 1024
    cases: int = 64
    sources: int = 256
    characters: int = 2_000_000
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
    grace: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0 and name != "batch_wait":
                raise InputError(f"the limit {name} is {getattr(self, name)}", hint="a number above 0")
        if self.cases > self.queue:
            raise InputError(
                f"a request may hold {self.cases} cases and a queue only {self.queue}",
                hint="the queue has to hold a whole request",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """How replies of another chat server are checked on their way.

    Attributes:
        base_url: The OpenAI-compatible server that answers, such as http://127.0.0.1:8080/v1.
        action: "annotate": say in the reply what was found; "header": in a header alone; "block": withhold a flagged
            reply; "revise": put the revised text in its place.
        detector: The spec of the detector that is asked; None: the server's first one.
        source_roles: Messages of these roles are the sources, where a request has no field `sources`.
        blocks: Whether a reply that could not be checked is withheld; None: where the action is "block".
        key_env: The environment variable that holds the key of the server behind; None: the client's own goes on.
        reply_bytes: The largest reply that is taken.
        timeout: Seconds that the server behind may take to answer.

    Raises:
        InputError: An unknown action, or no role.
    """

    base_url: str
    action: str = "annotate"
    detector: str | None = None
    source_roles: tuple[str, ...] = SOURCE_ROLES
    blocks: bool | None = None
    key_env: str | None = None
    reply_bytes: int = 8 * 1024 * 1024
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise UnknownNameError("action", self.action, ACTIONS)
        if not self.source_roles:
            raise InputError("no role of messages that are sources", hint="such as system,tool")

    @property
    def blocks_unavailable(self) -> bool:
        """Whether a reply that could not be checked is withheld."""
        return self.action == "block" if self.blocks is None else self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """A server's settings.

    Attributes:
        detectors: The specs that requests may name, and no others; the first is the one that is used where none is.
        own_detectors: Further detectors by name, made in Python.
        connection: How detectors that ask a chat model reach it.
        keys: Whoever has one of these may use the service; empty: everyone who reaches it.
        cors: Origins whose pages may use the service from a browser; "*" for all.
        hosts: Names by which the service is addressed (the `Host` header); empty: any. On a loopback address without
            keys only the loopback names are right: it keeps pages of other sites away.
        proxy: The chat server whose replies are checked on their way; None: no proxy.
        reviser: What revises where a request does not say (`veridical.revise.named`); None: "factored" where the
            connection has a model, else "delete".
        log_text: Whether the log has the texts of requests.
        limits: What a request may hold.

    Raises:
        InputError: No detector, one that is named twice, a spec that cannot be read, or what is not an origin.
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
            if origin != "*" and not _ORIGIN.fullmatch(origin):  # it would never be that of a page
                raise InputError(f"{origin!r} is not an origin", hint="such as https://example.org, without a path")


def is_loopback(host: str) -> bool:
    """Whether `host` is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
