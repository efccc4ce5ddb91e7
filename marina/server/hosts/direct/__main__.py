"""The process of the host `direct`: python -m marina.server.hosts.direct CONFIG

CONFIG is a JSON file: ports, who reaches them, the names of models that will be registered, the model store, the
temporary folder, and the folder of logs. Tokens that requests may bring beside the server's own are lines of standard
input, so that they are in no file. The process writes its own tokens beside CONFIG, and ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from handlers.worker.answering.reply import Reply
from marina.files import replacing
from marina.server.hosts.direct.connections import IDLE_S, Connection, Connections
from marina.server.hosts.direct.front import Front
from marina.server.hosts.direct.grpc_front import has_grpc, serving_grpc
from marina.server.hosts.direct.models import Models
from marina.server.run.environment import serving_env
from marina.server.run.logs import WORKERS_LOG
from marina.server.run.state import LOOPBACK, Access, Ports
from marina.server.run.tokens import KEY_FILE

LOG_BYTES, LOG_FILES = 10_000_000, 5
BACKLOG = 1024  # connections that wait to be accepted
MAX_CONNECTIONS, OTHER_FILES = 20_000, 256  # a connection is an open file; workers, logs and sockets are others
LOOPBACK_NAMES = ("127.0.0.1", "localhost")
DRAIN_S = 15.0  # for workers to answer what they have, when the server ends
NEVER = "9999-12-31T00:00:00.000000000Z"


def write_tokens(folder: Path) -> dict[str, str]:
    """Write new tokens, which do not expire, in the form of TorchServe's file; returns them by their kinds."""
    tokens = {kind: secrets.token_urlsafe(24) for kind in ("inference", "management", "API")}
    with replacing(folder / KEY_FILE) as partial_file:
        partial_file.touch(mode=0o600)
        entries = {kind: {"key": key, "expiration time": NEVER} for kind, key in tokens.items()}
        partial_file.write_text(json.dumps(entries))
    return tokens


def worker_log(folder: Path) -> logging.Logger:
    """The log of workers, which is rotated."""
    log = logging.getLogger("workers")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(RotatingFileHandler(folder / WORKERS_LOG, maxBytes=LOG_BYTES, backupCount=LOG_FILES))
    return log


class DrainingServer(uvicorn.Server):
    """A server whose workers answer what they have before it ends."""

    def __init__(self, models: Models, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._models = models

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._models.close(), DRAIN_S)
        await super().shutdown(sockets)


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens; with IPv4 too if the address is that of IPv6 for all interfaces."""
    if address != "::":
        return socket.create_server((address, port))
    return socket.create_server((address, port), family=socket.AF_INET6, dualstack_ipv6=True)


async def serve(config: dict[str, Any], folder: Path, tokens: Sequence[str], max_connections: int) -> None:
    """Listen until SIGTERM or SIGINT."""
    ports, access = Ports(**config["ports"]), Access(**config["access"])
    log = worker_log(Path(config["logs"]))
    models = Models(Path(config["model_store"]), Path(config["temp"]), serving_env(), log.info)
    models.coming.update(config["models"])
    addresses = {ports.inference: access.address, ports.management: LOOPBACK, ports.metrics: access.address}
    written = write_tokens(folder)
    inference_tokens = [written["inference"], *tokens] if access.needs_token else []
    names = LOOPBACK_NAMES if access.address == LOOPBACK and not access.needs_token else ()
    front = Front(models, ports, inference_tokens, written["management"], _pages() if access.docs else {}, names)
    server = DrainingServer(
        models,
        uvicorn.Config(
            front,
            http=partial(Connection, Connections(max_connections)),  # type: ignore[arg-type]
            ws="none",
            backlog=BACKLOG,
            lifespan="off",
            proxy_headers=False,
            access_log=False,
            log_level="error",  # a warning for each hostile request would fill the disk
            server_header=False,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=1,
        ),
    )
    async with AsyncExitStack() as stack:
        sockets = [stack.enter_context(listen(address, port)) for port, address in addresses.items()]
        if has_grpc():
            host = f"[{access.address}]" if ":" in access.address else access.address
            await stack.enter_async_context(serving_grpc(front, f"{host}:{ports.grpc_inference}"))
        else:
            print("gRPC is off: grpcio and protobuf are not installed", flush=True)
        print("Model server started", flush=True)
        await server.serve(sockets)


def _pages() -> Mapping[str, Reply]:
    # 20 MB of imports, which an image without pages does without
    from marina.server.hosts.direct.pages import pages

    return pages()


def main() -> None:
    """The command line."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = min(most_files, MAX_CONNECTIONS + OTHER_FILES)  # each connection is one
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most_files))
    path = Path(sys.argv[1])
    config = json.loads(path.read_text(encoding="utf-8"))
    tokens = sys.stdin.read().split()
    uvloop.run(serve(config, path.parent, tokens, max(1, files - OTHER_FILES)))


if __name__ == "__main__":
    main()
