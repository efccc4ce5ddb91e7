"""An open loop on `marina.Scorer`: what the same texts take without a server, in a process that does nothing else."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marina.bench.load.arrivals import arrival_times
from marina.bench.load.histogram import new_histogram, record
from marina.bench.load.measurement import Measurement
from marina.bench.load.profile import Load
from marina.bench.server.spawned import spawned_process

_loaded: list[tuple[Any, list[Any]]] = []  # of the process: one scorer, and a batch of each row


@contextmanager
def scorer_load(archive: Path, rows: Sequence[dict[str, str]]) -> Iterator[Callable[[Load], Measurement]]:
    """Load a model in a process, and yield what answers rows one by one at the rate of a load.

    Latencies count from the time when each row was due, as those of requests do.

    Args:
        archive: the model's archive (.mar).
        rows: texts by field of an instance.
    """
    with spawned_process() as process:
        process.submit(_load, archive, rows).result()
        yield lambda load: process.submit(_run, load).result()


def _load(archive: Path, rows: Sequence[dict[str, str]]) -> None:
    import pyarrow as pa

    import marina

    _loaded.append((marina.Scorer(archive), [pa.RecordBatch.from_pylist([row]) for row in rows]))


def _run(load: Load) -> Measurement:
    ((scorer, batches),) = _loaded
    assert load.rate
    assert load.seconds
    latencies, end_s = new_histogram(), load.warm_up_s + load.seconds
    start = time.perf_counter()
    for due_s, batch in zip(arrival_times(load.arrivals, load.rate, 0, 1), itertools.cycle(batches), strict=False):
        if due_s >= end_s:
            break
        time.sleep(max(0.0, start + due_s - time.perf_counter()))
        answers = scorer(batch)
        assert answers["error"].null_count == 1, answers["error"]
        if due_s >= load.warm_up_s:
            record(latencies, time.perf_counter() - start - due_s)
    seconds = max(load.seconds, time.perf_counter() - start - load.warm_up_s)
    count = latencies.total_count
    return Measurement.of_calls(seconds, count, count, count / seconds, latencies)
