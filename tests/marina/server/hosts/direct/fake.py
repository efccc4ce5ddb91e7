"""An unpacked archive whose worker does what the bodies of requests say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from handlers.worker.hosts import frames
from marina.server.hosts.direct.version import Version

WORKER = """
import os, socket, sys, time
from handlers.worker.hosts.frames import Message, read_message
connection = socket.socket(fileno=int(sys.argv[1]))
stream = connection.makefile("rb")
print("a line of the worker", flush=True)
send = lambda message: connection.sendall(message.as_bytes())
if os.path.exists("broken"):
    sys.exit("marina: cannot serve: it is broken")
send(Message({"ready": os.getpid(), "protocol": 1 if not os.path.exists("old") else 0}))
while message := read_message(stream.read):
    if "describe" in message.fields:
        send(Message({"description": {"pid": os.getpid()}}))
        continue
    if "metrics" in message.fields:
        send(Message({"metrics": [["marina_requests_total", ["m", "200"], 1.0]]}))
        continue
    bodies = [body.decode() for body in message.bodies]
    time.sleep(0.3 * bodies.count("slow"))
    if "hang" in bodies:
        time.sleep(60)
    if "die" in bodies or ("die once" in bodies and not os.path.exists("died")):
        open("died", "w").close()
        os._exit(1)
    if "drop" in bodies:
        bodies.remove("drop")
    head = [200, {"x-batch": str(len(bodies))}, "text/plain"]
    send(Message({"replies": [head] * len(bodies)}, [body.encode() for body in bodies]))
"""
CONFIG = {
    **{"minWorkers": 1, "batchSize": 4, "jobQueueSize": 8, "responseTimeout": 1.0, "startupTimeout": 20},
    "handler": {"deadline_ms": 2000, "members": {"m": {"max_body_bytes": 500_000}}},
}


@asynccontextmanager
async def served(
    folder: Path, count: Callable[[list[Any]], None] = lambda _: None, **config: Any
) -> AsyncIterator[tuple[Version, list[str]]]:
    """A version with the fake worker, and the lines of its log."""
    package = folder / "handlers" / "worker" / "hosts"
    package.mkdir(parents=True)
    for parent in (package, *list(package.parents)[:2]):
        (parent / "__init__.py").touch()
    (package / "frames.py").write_text(Path(frames.__file__).read_text())
    (package / "direct.py").write_text(WORKER)
    lines: list[str] = []
    environment = {"PATH": os.environ["PATH"]}
    version = Version("m", "1", folder, {**CONFIG, **config}, environment, lambda _, line: lines.append(line), count)
    version.workers.scale({**CONFIG, **config}["minWorkers"])
    try:
        yield version, lines
    finally:
        await version.close()


async def until_ready(version: Version, workers: int = 1, seconds: float = 20) -> None:
    """Wait until so many workers are READY."""
    for _ in range(int(seconds / 0.02)):
        if len(version.workers.ready) == workers:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{len(version.workers.ready)} workers are READY")


async def until_logged(lines: list[str], text: str, seconds: float = 10) -> None:
    """Wait until a text is in the log of workers."""
    for _ in range(int(seconds / 0.02)):
        if any(text in line for line in lines):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{text!r} is not among {lines}")
