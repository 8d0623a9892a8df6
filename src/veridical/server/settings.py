"""The settings of a server: its detectors, its access rules, its limits and its proxy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from veridical.io.prompt_context import Marker, read_marker
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.spec import parse_spec

if TYPE_CHECKING:
    from veridical.llm.connection import Connection
    from veridical.records.detector import Detector
    from veridical.server.keys import Key

DEFAULT_DETECTORS = ("default", "overlap")
ACTIONS = ("annotate", "header", "block", "revise")
SOURCE_ROLES = ("context",)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+")
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a server on size, time and load. A request that exceeds a limit is rejected, never truncated.

    Attributes:
        body_bytes: How many bytes a JSON body may have.
        document_bytes: How many bytes an uploaded document may have. Its text may have `characters` characters.
        cases: How many cases a request may have.
        sources: How many sources a case may have.
        characters: How many characters a case may have in response, sources, question, history and prompt together.
        memory_bytes: How many bytes the bodies of all requests in progress may take together. If a request needs more,
            it is refused with 429. A single client (identified by its key, or by its address) may use three quarters.
            The unread parts of all answers may take as many bytes again. If they take more, the largest answer is
            dropped.
        documents: How many uploaded documents are read at the same time, each in a process of its own.
        document_memory: How many bytes of memory such a process may use, if the operating system can limit them.
        depth: How deeply JSON may be nested.
        values: How many values JSON may have: texts, numbers, lists and objects. A value can take 100 times as much
            memory as its text.
        queue: How many cases may wait for one detector. If a request does not fit, it is refused with 429.
        batch_cases: How many cases, of one or more requests, a detector may judge in one batch.
        batch_characters: How many characters such a batch may have, unless a single case has more.
        batch_wait: How many seconds a batch waits for more cases.
        wait: How many seconds the cases of a request may have to wait in the queue. The wait is estimated from the
            recent speed. If it would be longer, the request is refused with 429.
        timeout: How many seconds a detector, a revision or the parsing of a document may take for one request.
        body_timeout: How many seconds a request may take to arrive, head and body together. A client that reads a
            response may pause for as long.
        idle: How many seconds a connection without a request stays open, unless a new connection needs its place.
            Clients and load balancers keep connections open for 5 to 60 seconds. Set a longer time than theirs, because
            if the server closes first, a request that was just sent is lost.
        stream_timeout: How many seconds a streamed response may take from beginning to end. Any other request ends
            at most `body_timeout` seconds later, whatever it waits for.
        revisions: How many requests may be revised at the same time.
        connections: How many connections there may be at the same time. Further connections are answered with 503.
        client_connections: How many connections one address may have. Clients behind a reverse proxy share its address.
        grace: How many seconds a shutdown waits for accepted requests.
    """

    body_bytes: int = 8 * 1024 * 1024
    document_bytes: int = 32 * 1024 * 1024
    cases: int = 64
    sources: int = 256
    characters: int = 2_000_000
    memory_bytes: int = 128 * 1024 * 1024
    documents: int = 2
    document_memory: int = 512 * 1024 * 1024
    depth: int = 32
    values: int = 400_000
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
    """Settings of the chat proxy: the chat server behind it, and what happens to its replies.

    Attributes:
        base_url: The base URL of the OpenAI-compatible server, such as http://127.0.0.1:8080/v1.
        action: "annotate" adds the result of the check to the reply, "header" only sets a header, "block" withholds a
            flagged reply, and "revise" replaces a flagged reply by its revision.
        detector: The spec of the detector to ask. Default: the server's first detector.
        source_roles: The roles whose complete messages are sources of the reply, besides "tool" and "function".
        context_markers: How to find retrieved passages inside system and user messages: the words before and after
            them, each as "BEFORE...AFTER", such as "Documents:...Question:". Well-known prompts need no marker.
        blocks: If true, a reply that could not be checked is withheld. Default: only if the action is "block".
        key_env: The environment variable that contains the key of the chat server. Default: the client's key is
            forwarded.
        reply_bytes: How many bytes a reply of the chat server may have.
        timeout: How many seconds the chat server may take to answer.

    Raises:
        InputError: The action is unknown, there are no roles, or a marker has no beginning.
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
        """The words before and after retrieved passages, parsed from `context_markers`."""
        return [read_marker(text) for text in self.context_markers]

    @property
    def blocks_unavailable(self) -> bool:
        """True if a reply that could not be checked is withheld."""
        return self.action == "block" if self.blocks is None else self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Settings of the history of a server: where checks are stored, which ones, and for how long.

    Attributes:
        place: The path of an SQLite file, or the URL of a PostgreSQL database.
        proxy: If true, the replies that pass through the proxy are stored, too.
        days: Runs are deleted after this many days. None for no limit.
        cases: The largest number of cases to keep. If there are more, the oldest are deleted. None for no limit.

    Raises:
        InputError: A limit is not above 0.
    """

    place: str
    proxy: bool = False
    days: float | None = None
    cases: int | None = None

    def __post_init__(self) -> None:
        for name in ("days", "cases"):
            limit = getattr(self, name)
            if limit is not None and limit <= 0:
                raise InputError(f"the limit of {name} is {limit}", hint="a number above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server, for `create_app`.

    Attributes:
        detectors: The specs that requests may name. The first one serves requests that name no detector.
        own_detectors: Further detector objects that requests may name, by name.
        connection: How detectors and revisers reach their chat model. None if there is none.
        keys: The API keys that clients must have. If empty, no key is needed.
        cors: The origins whose pages may use the service from a browser. "*" allows all origins.
        hosts: The allowed values of the `Host` header, without a port. If empty, any value is allowed. On a loopback
            address without keys, allow only the loopback names. Otherwise, pages of other sites could reach the service
            (DNS rebinding).
        proxy: The settings of the proxy to a chat server whose replies are checked. None for no proxy.
        history: Where and for how long to store checked cases. None to store nothing.
        reviser: The default reviser (`veridical.workflows.revise.named`). Default: "factored" if the connection has a
            model, and "delete" otherwise.
        log_text: Whether the log contains the texts of requests.
        limits: The limits on requests.

    Raises:
        InputError: There is no detector, a detector is named twice, a spec cannot be read, or an origin is malformed.
    """

    detectors: tuple[str, ...] = DEFAULT_DETECTORS
    own_detectors: Mapping[str, Detector] = field(default_factory=dict)
    connection: Connection | None = None
    keys: tuple[Key, ...] = ()
    cors: tuple[str, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    proxy: ProxySettings | None = None
    history: HistorySettings | None = None
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
    """Check whether a server bound to `host` can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
