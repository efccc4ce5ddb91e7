"""Answers shards, each stage while the next shard is in the stage before; and the process that does so."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.errors import WorkerError
from marina.archive.unpacked import artifact_and_settings, read_unpacked
from marina.errors import MarinaError
from marina.files import explain
from marina.score.layout import AnswerOptions, layout_of
from marina.score.remote import RemoteScorer, Server
from marina.score.scorer import Scorer
from marina.score.values import Counts, RowSource, Shard, StagedScorer, Writer

SHARDS_PER_PROCESS = 2  # one is computed, and one read or written meanwhile
# how long a thread may keep others from Python; the default of 5 ms is as long as many calls of graphs
SWITCH_INTERVAL_S = 0.0005
PR_SET_PDEATHSIG = 1  # of prctl in Linux


class ProcessSetup(NamedTuple):
    """The setup of a process.

    Attributes:
        folder: into which the archive was unpacked.
        model: the model, if the archive is a bundle.
        options: the options of the job.
        core_groups: sizes of core groups, of which it takes one.
        server: a server that answers in place of the archive, if there is one.
        source: the rows.
        writer: writes the answers; None to write nothing.
    """

    folder: Path
    model: str | None
    options: AnswerOptions
    core_groups: str
    server: Server | None
    source: RowSource
    writer: Writer | None


class Ready(NamedTuple):
    """The model is loaded, and computes a row of its longest shape in this time."""

    longest_row_ms: float


class Done(NamedTuple):
    """A shard is written."""

    shard: Shard
    counts: Counts


class Failed(NamedTuple):
    """A shard could not be answered; or, if it is None, the model could not be loaded."""

    shard: Shard | None
    message: str


def main(setup: ProcessSetup, connection: Connection) -> None:
    """Answer the shards that come through the connection until the process that started this one ends it, or itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides when it ends
    _end_with_parent()
    try:
        worker = Worker(setup)
    except Exception as error:
        connection.send(Failed(None, message_of(error)))
        return
    connection.send(worker.ready)
    send_lock = threading.Lock()

    def answer(shard: Shard) -> None:
        message = worker.answer(shard)
        with send_lock:
            try:
                connection.send(message)
            except OSError:
                os._exit(1)  # nobody waits for answers any more

    with ThreadPoolExecutor(SHARDS_PER_PROCESS) as threads:
        while True:
            try:
                threads.submit(answer, connection.recv())
            except (EOFError, OSError):
                os._exit(1)


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent, so that two jobs never write the same shard."""
    parent = multiprocessing.parent_process()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is None or not parent.is_alive():
        os._exit(1)


def open_scorer(setup: ProcessSetup) -> StagedScorer:
    """The scorer that answers the rows in a process."""
    options = setup.options
    if setup.server:
        return RemoteScorer(
            setup.server, layout_of(*artifact_and_settings(read_unpacked(setup.folder, setup.model)), options)
        )
    return Scorer(
        setup.folder,
        model=setup.model,
        columns=options.columns,
        parameters=options.parameters,
        keep=options.keep,
        prefix=options.prefix,
        core_groups=setup.core_groups,
    )


class Worker:
    """Answers shards. Several threads may call it: each stage takes one shard at a time, while others are in the next.

    Args:
        setup: the setup of this process.

    Raises:
        MarinaError, WorkerError: the model cannot be loaded.
    """

    def __init__(self, setup: ProcessSetup) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._source, self._writer = setup.source, setup.writer
        # the thread that loaded and timed the graphs runs them too: runtimes keep state for each thread
        self._compute_thread = ThreadPoolExecutor(1)
        self._scorer = self._compute_thread.submit(open_scorer, setup).result()
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()
        self._tokenizer_lock = threading.Lock()  # reading changes its settings, and answers of some tasks use it
        self.ready = Ready(self._scorer.longest_row_ms)

    def answer(self, shard: Shard) -> Done | Failed:
        """Read, compute and write a shard."""
        try:
            with self._read_lock:
                read = self._source.read(shard)
                with self._tokenizer_lock:
                    encoded = self._scorer.encode(read)
            computed = self._compute_thread.submit(self._scorer.compute, encoded).result()
            with self._write_lock:
                return self._write(shard, computed)
        except Exception as error:
            return Failed(shard, message_of(error))

    def _write(self, shard: Shard, computed: Any) -> Done:
        with self._tokenizer_lock:
            answers, counts = self._scorer.answer(computed)
        if self._writer:
            self._writer.write(shard, answers, counts)
        return Done(shard, counts)


def message_of(error: Exception) -> str:
    """The message of an error for people; it holds no text of the rows."""
    if isinstance(error, (MarinaError, WorkerError)):
        return str(error)
    if isinstance(error, OSError):
        return explain(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.filename}:{frame.lineno}"
