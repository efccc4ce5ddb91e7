"""The process of a core group: reads, answers and writes shards, each stage while the next shard is in the one before.

The stages are threads: one reads and tokenizes, one runs graphs, which needs no Python, and one writes.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from handlers.worker.errors import WorkerError
from marina.errors import MarinaError
from marina.files import explain
from marina.score.layout import Asked
from marina.score.scorer import Computed, Encoded, Scorer
from marina.score.values import Counts, Shard, Source, Writer

# how long a thread may keep others from Python; the default of 5 ms is as long as many calls of graphs
SWITCH_S = 0.0005
PR_SET_PDEATHSIG = 1  # of prctl in Linux


class Setup(NamedTuple):
    """What a process needs.

    Attributes:
        folder: into which the archive was unpacked.
        model: the model, if the archive is a bundle.
        asked: what is asked for.
        groups: core groups, of which it takes one.
        source: where it reads.
        writer: what it writes with; None to write nothing.
    """

    folder: Path
    model: str | None
    asked: Asked
    groups: str
    source: Source
    writer: Writer | None


class Ready(NamedTuple):
    """The model is loaded, and computes a row of its longest shape in this time."""

    longest_row_ms: float


class Done(NamedTuple):
    """A shard is written."""

    shard: Shard
    counts: Counts


class Failed(NamedTuple):
    """A shard could not be answered, or, if it is None, the model not be loaded."""

    shard: Shard | None
    message: str


def main(setup: Setup, connection: Connection) -> None:
    """Answer the shards that come through the connection until the process that started this one ends it, or itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides when it ends
    _end_with_parent()
    sys.setswitchinterval(SWITCH_S)
    try:
        scorer = open_scorer(setup)
    except Exception as error:
        connection.send(Failed(None, message_of(error)))
        return
    connection.send(Ready(scorer.longest_row_ms))
    stages = Stages(scorer, setup.source, setup.writer)
    threading.Thread(target=stages.receive, args=[connection], daemon=True).start()
    threading.Thread(target=stages.send, args=[connection], daemon=True).start()
    stages.compute()


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent, so that two jobs never write the same shard."""
    parent = multiprocessing.parent_process()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is None or not parent.is_alive():
        os._exit(1)


def open_scorer(setup: Setup) -> Scorer:
    """The scorer of a process."""
    asked = setup.asked
    return Scorer(
        setup.folder,
        model=setup.model,
        columns=asked.columns,
        parameters=asked.parameters,
        keep=asked.keep,
        prefix=asked.prefix,
        core_groups=setup.groups,
    )


class Stages:
    """The stages of a process, joined by queues of one shard."""

    def __init__(self, scorer: Scorer, source: Source, writer: Writer | None) -> None:
        self._scorer, self._source, self._writer = scorer, source, writer
        self._encoded: queue.Queue[tuple[Shard, Encoded | Failed]] = queue.Queue(1)
        self._computed: queue.Queue[tuple[Shard, Computed | Failed]] = queue.Queue(1)
        self._tokenizer = threading.Lock()  # reading changes its settings, and answers of some tasks use it

    def receive(self, connection: Connection) -> NoReturn:
        """Read and tokenize the shards that come."""
        while True:
            try:
                shard: Shard = connection.recv()
            except (EOFError, OSError):
                os._exit(1)  # nobody waits for answers any more
            try:
                read = self._source.read(shard)
                with self._tokenizer:
                    encoded = self._scorer.encode(read)
                self._encoded.put((shard, encoded))
            except Exception as error:
                self._encoded.put((shard, Failed(shard, message_of(error))))

    def compute(self) -> NoReturn:
        """Run the graphs."""
        while True:
            shard, encoded = self._encoded.get()
            try:
                self._computed.put((shard, encoded if isinstance(encoded, Failed) else self._scorer.compute(encoded)))
            except Exception as error:
                self._computed.put((shard, Failed(shard, message_of(error))))

    def send(self, connection: Connection) -> NoReturn:
        """Write the answers."""
        while True:
            shard, computed = self._computed.get()
            message: Any = computed
            if isinstance(computed, Computed):
                try:
                    message = self._write(shard, computed)
                except Exception as error:
                    message = Failed(shard, message_of(error))
            try:
                connection.send(message)
            except OSError:
                os._exit(1)

    def _write(self, shard: Shard, computed: Computed) -> Done:
        with self._tokenizer:
            answers, errors = self._scorer.answer(computed)
        counts = Counts(len(answers), errors, computed.tokens, computed.computed)
        if self._writer:
            self._writer.write(shard, answers, counts)
        return Done(shard, counts)


def message_of(error: Exception) -> str:
    """What a person is told about an error; it holds no text of the rows."""
    if isinstance(error, (MarinaError, WorkerError)):
        return str(error)
    if isinstance(error, OSError):
        return explain(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.filename}:{place.lineno}"
