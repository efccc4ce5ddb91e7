"""The process of the host `direct`: python -m marina.server.direct CONFIG

CONFIG is a JSON file: the ports, the model store, the temporary folder, and the folder of logs. The process writes
tokens beside it, and ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import secrets
import socket
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from marina.files import replacing
from marina.server.direct.front import Front
from marina.server.direct.models import Models
from marina.server.logs import WORKERS_LOG
from marina.server.state import Ports
from marina.server.torchserve.environment import serving_env
from marina.server.torchserve.tokens import KEY_FILE

LOG_BYTES, LOG_FILES = 10_000_000, 5
BACKLOG = 1024  # connections that wait to be accepted
KEEP_ALIVE_S = 75  # for an idle connection; longer than load balancers keep theirs
DRAIN_S = 15.0  # for workers to answer what they have, when the server ends
NEVER = "9999-12-31T00:00:00.000000000Z"


def write_tokens(folder: Path) -> dict[str, str]:
    """Write new tokens, which do not expire, in the form of TorchServe's file; returns them by their kinds."""
    tokens = {kind: secrets.token_urlsafe(24) for kind in ("inference", "management", "API")}
    with replacing(folder / KEY_FILE) as partial:
        partial.touch(mode=0o600)
        partial.write_text(json.dumps({kind: {"key": key, "expiration time": NEVER} for kind, key in tokens.items()}))
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


async def serve(config: dict[str, Any], folder: Path) -> None:
    """Listen until SIGTERM or SIGINT."""
    ports = Ports(**config["ports"])
    log = worker_log(Path(config["logs"]))
    models = Models(Path(config["model_store"]), Path(config["temp"]), serving_env(), log.info)
    sockets = []
    for port in (ports.inference, ports.management, ports.metrics):
        listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
        sockets.append(listener)
    front = Front(models, ports, write_tokens(folder))
    server = DrainingServer(
        models,
        uvicorn.Config(
            front,
            http="httptools",
            ws="none",
            lifespan="off",
            proxy_headers=False,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        ),
    )
    print("Model server started", flush=True)
    try:
        await server.serve(sockets)
    finally:
        for listener in sockets:
            listener.close()


def main() -> None:
    """The command line."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # each connection is one
    path = Path(sys.argv[1])
    config = json.loads(path.read_text(encoding="utf-8"))
    uvloop.run(serve(config, path.parent))


if __name__ == "__main__":
    main()
