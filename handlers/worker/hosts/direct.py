"""The host `direct`, inside a worker: a process that answers batches which the front sends over a socket.

    python -m handlers.worker.hosts.direct SOCKET

The working folder is that of the unpacked archive, and SOCKET the number of the open socket. `marina serve --host
direct` starts workers; they end when the front closes the socket, or dies.

    to the worker                          from it
                                           {ready: pid, protocol: 1, metrics: [...]}
    {headers: [...]}, with the bodies      {replies: [[status, headers, media type], ...]}, with the bodies
    {describe: true}                       {description: {...}}
    {metrics: true}                        {metrics: [[name, labels, value], ...]}

Replies have metrics too, once a second, so that few are lost if the worker dies.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from handlers.worker.answering.model import Model
from handlers.worker.archive.artifact import CONFIG_FILE
from handlers.worker.hosts.frames import PROTOCOL, Message, read_message
from handlers.worker.hosts.start import load_model
from handlers.worker.tasks import TASKS
from handlers.worker.telemetry.metrics import WORKER_STARTS

COUNTED_S = 1.0


def answer(model: Model, message: Message) -> Message:
    """The answer to a message of the front."""
    if "describe" in message.fields:
        return Message({"description": model.describe()})
    if "metrics" in message.fields:
        return Message(take_metrics(model))
    replies = model.reply(list(zip(message.bodies, message.fields["headers"], strict=True)))
    heads = [[reply.status, dict(reply.headers), reply.media_type] for reply in replies]
    return Message({"replies": heads}, [reply.body for reply in replies])


def take_metrics(model: Model) -> dict[str, Any]:
    """What has been counted since the last call."""
    return {"metrics": [[name, labels, value] for (name, labels), value in model.metrics.take().items()]}


def main(arguments: Sequence[str]) -> None:
    """Serve the archive in the working folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the front, which lets workers finish
    with socket.socket(fileno=int(arguments[0])) as connection:
        folder = Path.cwd()
        config = yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        try:
            model = load_model(folder, config, TASKS, knows_wait=True)
        except Exception:
            sys.exit(1)
        model.metrics.add(WORKER_STARTS, 1)
        stream = connection.makefile("rb")
        with suppress(BrokenPipeError, ConnectionResetError):  # the front has ended
            reply = Message({"ready": os.getpid(), "protocol": PROTOCOL, **take_metrics(model)})
            counted = time.monotonic()
            connection.sendall(reply.as_bytes())
            while message := read_message(stream.read):
                reply = answer(model, message)
                if "replies" in reply.fields and time.monotonic() - counted > COUNTED_S:
                    counted = time.monotonic()
                    reply = reply._replace(fields={**reply.fields, **take_metrics(model)})
                connection.sendall(reply.as_bytes())


if __name__ == "__main__":
    main(sys.argv[1:])
