"""The host `direct`, inside a worker: a process that answers batches which the front sends over a socket.

    python -m handlers.worker.hosts.direct SOCKET

The working folder is that of the unpacked archive, and SOCKET the number of the open socket. `marina serve --host
direct` starts workers; they end when the front closes the socket, or dies.

    to the worker                          from it
                                           {ready: pid}
    {headers: [...]}, with the bodies      {replies: [[status, headers, media type], ...]}, with the bodies
    {describe: true}                       {description: {...}}
    {metrics: true}                        {metrics: [[name, labels, value], ...]}
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from handlers.worker.artifact import CONFIG_FILE
from handlers.worker.hosts.frames import Message, read_message
from handlers.worker.hosts.start import load_model
from handlers.worker.model import Model
from handlers.worker.tasks import TASKS
from handlers.worker.telemetry.metrics import WORKER_STARTS


def answer(model: Model, message: Message) -> Message:
    """The answer to a message of the front."""
    if "describe" in message.fields:
        return Message({"description": model.describe()})
    if "metrics" in message.fields:
        counts = model.metrics.take()
        return Message({"metrics": [[name, labels, value] for (name, labels), value in counts.items()]})
    replies = model.reply(list(zip(message.bodies, message.fields["headers"], strict=True)))
    heads = [[reply.status, dict(reply.headers), reply.media_type] for reply in replies]
    return Message({"replies": heads}, [reply.body for reply in replies])


def main(arguments: Sequence[str]) -> None:
    """Serve the archive in the working folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the front, which lets workers finish
    with socket.socket(fileno=int(arguments[0])) as connection:
        folder = Path.cwd()
        config = yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        try:
            model = load_model(folder, config, TASKS)
        except Exception:
            sys.exit(1)
        model.metrics.add(WORKER_STARTS, 1)
        stream = connection.makefile("rb")
        with suppress(BrokenPipeError, ConnectionResetError):  # the front has ended
            connection.sendall(b"".join(Message({"ready": os.getpid()}).parts()))
            while message := read_message(stream.read):
                connection.sendall(b"".join(answer(model, message).parts()))


if __name__ == "__main__":
    main(sys.argv[1:])
