"""Measures one load: starts the generator's processes, and repeats windows until they agree."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from marina.bench.load.generator import WindowSample, run_generator
from marina.bench.load.measurement import MeasuredWindow, Measurement
from marina.bench.load.profile import Load, Target
from marina.bench.load.summary import STABLE_WINDOWS, agree, join, measurement_of, window_of
from marina.bench.load.transport import encode
from marina.errors import MarinaError

START_S = 0.1  # from the moment all processes are ready to the first request
READY_TIMEOUT_S = 60

# called after each window: its figures, the number of windows so far, and the maximum number of windows
WindowReport = Callable[[MeasuredWindow, int, int], None]


def measure(
    target: Target, bodies: list[bytes], instances: float, load: Load, report: WindowReport = lambda *_: None
) -> Measurement:
    """Send requests until throughput and p99 of three windows agree, or for as long as `load` says.

    Args:
        target: where requests go.
        bodies: JSON bodies, sent in turn.
        instances: mean number of instances per body.
        load: how requests are sent.
        report: called after each window.

    Raises:
        MarinaError: a process of the generator failed.
    """
    if load.seconds:
        load = replace(load, window_s=load.seconds / math.ceil(load.seconds / load.window_s))
    load = replace(load, processes=min(load.processes, load.connections, load.requests or load.processes))
    most = load.most_windows
    if load.seconds:
        most = round(load.seconds / load.window_s)
    samples: list[WindowSample] = []
    with _processes(target, load, encode(target, bodies)) as pipes:
        arriving = _arriving(pipes)
        for sample in arriving:
            samples.append(sample)
            if load.requests:
                continue
            figures = [window_of(one, instances) for one in samples]
            report(figures[-1], len(samples), most)
            if len(samples) >= most or (not load.seconds and agree(figures, load.within)):
                break
        for pipe in pipes:
            with suppress(BrokenPipeError):
                pipe.send("stop")
        rest = list(arriving)
    if load.requests:
        return measurement_of(samples, None, len(samples), load, instances)
    counted = len(samples) if load.seconds else min(STABLE_WINDOWS, len(samples))
    return measurement_of(samples, join(rest), counted, load, instances)


@contextmanager
def _processes(target: Target, load: Load, requests: list[bytes]) -> Iterator[list[Connection]]:
    """The generator's processes, which start sending at the same time; they end with this block."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for number in range(load.processes):
            pipe, theirs = context.Pipe()
            arguments = (theirs, target, load, requests, number)
            process = context.Process(target=run_generator, args=arguments, daemon=True)
            process.start()
            theirs.close()
            pipes.append(pipe)
            processes.append(process)
        for pipe in pipes:
            if not pipe.poll(READY_TIMEOUT_S):
                raise MarinaError("a process of the load generator did not start")
            _receive(pipe)
        start = time.monotonic() + START_S
        for pipe in pipes:
            pipe.send(start)
        yield pipes
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(timeout=1)
            process.kill()


def _arriving(pipes: list[Connection]) -> Iterator[WindowSample]:
    """Yield window after window, each once every process that is still running has sent its sample."""
    arrived: dict[int, list[WindowSample]] = {}
    # the number of the last window received from each process; infinity once the process is done
    reached = dict.fromkeys(pipes, -1.0)
    number = 0
    while True:
        while min(reached.values()) < number:
            for pipe in wait([pipe for pipe, last in reached.items() if last < math.inf]):
                assert isinstance(pipe, Connection)
                sample = _receive(pipe)
                arrived.setdefault(sample.number, []).append(sample)
                reached[pipe] = math.inf if sample.last else sample.number
        if not arrived:
            return
        yield join(arrived.pop(number))
        number += 1


def _receive(pipe: Connection) -> Any:  # a Sample, or "ready"
    try:
        return pipe.recv()
    except EOFError:
        raise MarinaError("a process of the load generator failed; what it said is above") from None
