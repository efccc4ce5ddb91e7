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
from marina.bench.load.summary import STABLE_WINDOWS, measurement_of, merge_samples, window_of, windows_agree
from marina.bench.load.transport import encode
from marina.errors import MarinaError

START_S = 0.1  # from the moment all processes are ready to the first request
READY_TIMEOUT_S = 60

# called after each window with its figures, the number of windows so far, and the maximum number of windows
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
    max_windows = load.max_windows
    if load.seconds:
        max_windows = round(load.seconds / load.window_s)
    samples: list[WindowSample] = []
    with _processes(target, load, encode(target, bodies)) as pipes:
        window_samples = _window_samples(pipes)
        for sample in window_samples:
            samples.append(sample)
            if load.requests:
                continue
            windows = [window_of(window_sample, instances) for window_sample in samples]
            report(windows[-1], len(samples), max_windows)
            if len(samples) >= max_windows or (not load.seconds and windows_agree(windows, load.within)):
                break
        for pipe in pipes:
            with suppress(BrokenPipeError):
                pipe.send("stop")
        remaining_samples = list(window_samples)
    if load.requests:
        return measurement_of(samples, None, len(samples), load, instances)
    counted_windows = len(samples) if load.seconds else min(STABLE_WINDOWS, len(samples))
    return measurement_of(samples, merge_samples(remaining_samples), counted_windows, load, instances)


@contextmanager
def _processes(target: Target, load: Load, requests: list[bytes]) -> Iterator[list[Connection]]:
    """The generator's processes, which start sending at the same time; they end with this block."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for number in range(load.processes):
            pipe, child_pipe = context.Pipe()
            process_args = (child_pipe, target, load, requests, number)
            process = context.Process(target=run_generator, args=process_args, daemon=True)
            process.start()
            child_pipe.close()
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


def _window_samples(pipes: list[Connection]) -> Iterator[WindowSample]:
    """Yield window after window, each once every process that is still running has sent its sample."""
    samples_by_window: dict[int, list[WindowSample]] = {}
    # the number of the last window received from each process; infinity once the process is done
    last_windows = dict.fromkeys(pipes, -1.0)
    window_number = 0
    while True:
        while min(last_windows.values()) < window_number:
            for pipe in wait([pipe for pipe, last_window in last_windows.items() if last_window < math.inf]):
                assert isinstance(pipe, Connection)
                sample = _receive(pipe)
                samples_by_window.setdefault(sample.number, []).append(sample)
                last_windows[pipe] = math.inf if sample.last else sample.number
        if not samples_by_window:
            return
        yield merge_samples(samples_by_window.pop(window_number))
        window_number += 1


def _receive(pipe: Connection) -> Any:  # a WindowSample, or "ready"
    try:
        return pipe.recv()
    except EOFError:
        raise MarinaError("a process of the load generator failed; what it said is above") from None
