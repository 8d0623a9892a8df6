"""Running the service: uvicorn with limits on connections, and an end that finishes what was accepted."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn

from veridical.core.errors import InputError
from veridical.server.app import create_app
from veridical.server.settings import ServerSettings

__all__ = ["Server", "run"]


class Server(uvicorn.Server):
    """uvicorn's server, which reports its address."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: object = None) -> None:
        """Bind, then report the address."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_start(f"http://{f'[{host}]' if ':' in host else host}:{port}/")


def run(settings: ServerSettings, *, host: str, port: int, on_start: Callable[[str], None]) -> None:
    """Serve until the process gets SIGINT or SIGTERM; what was accepted by then is finished.

    Args:
        settings: What is served, and to whom.
        host: The address to bind to.
        port: The port; 0 for any that is free.
        on_start: Called with the URL once requests can come.

    Raises:
        InputError: The address cannot be used.
    """
    config = uvicorn.Config(
        create_app(settings),
        host=host,
        port=port,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=round(settings.limits.grace),
        h11_max_incomplete_event_size=16 * 1024,
    )
    try:
        Server(config, on_start).run()
    except SystemExit:  # uvicorn's way to say that it could not bind, which its log says, too
        raise InputError(f"cannot bind to {host}:{port}", hint="another --port, or --port 0 for any") from None
