"""Runs the graphs of an artifact in a loop, without a server: the upper limit of serving."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.settings import Settings, read_settings
from handlers.worker.values import Instance
from marina.archive.pack import model_config, parts_of
from marina.bench.load.histogram import decoded, encoded, merged, milliseconds, new_histogram, record
from marina.bench.load.measurement import Measurement
from marina.bench.server.spawned import spawned_process
from marina.compiler.examples import expand
from marina.spec import Spec

PAUSE_S = 0.0015


class BareResult(NamedTuple):
    """The performance of the graphs alone on the rows of some texts.

    Attributes:
        texts_per_s: texts per second if all rows are available at once: sorted by length, assigned to calls by
            the fastest plan, one graph after the other, with inputs already in place.
        single_latencies: histogram of latencies of single texts without pauses, each in the graph that is fastest for
            it.
        paced_ms: median of these latencies with pauses in between. As between requests, caches become cold and
            cores go to sleep during a pause.
        megabytes: growth of the process's memory when it loaded the model, as a worker does.
    """

    texts_per_s: float
    single_latencies: str
    paced_ms: float
    megabytes: float

    def measurement(self, seconds: float) -> Measurement:
        """The result in the format of other loads: throughput with all texts at once, latency of single texts."""
        return Measurement.of_calls(seconds, 0, 0, self.texts_per_s, decoded(self.single_latencies))


class BareGraphs:
    """The graphs of one artifact, in one process per core group.

    Args:
        processes: that have loaded them.
        texts_per_row: 1 divided by the rows of a text.
    """

    def __init__(self, processes: list[ProcessPoolExecutor], texts_per_row: float) -> None:
        self._processes, self._texts_per_row = processes, texts_per_row

    def run(self, seconds: float) -> BareResult:
        """Run in all processes at the same time.

        The rates are summed and the latencies merged; the other figures are those of the first process.
        """
        runs = [future.result() for future in [process.submit(_run, seconds) for process in self._processes]]
        single_latencies = merged(decoded(run.single_latencies) for run in runs)
        return runs[0]._replace(
            texts_per_s=sum(run.texts_per_s for run in runs) * self._texts_per_row,
            single_latencies=encoded(single_latencies),
        )


@contextmanager
def bare_graphs(spec: Spec, artifact: Path, texts: list[Instance]) -> Iterator[BareGraphs]:
    """Load the graphs in as many processes as there would be workers, placed on the same cores.

    Args:
        spec: how the model would be served.
        artifact: folder of the artifact.
        texts: texts for the graphs; texts that need several rows are truncated to the longest shape.
    """
    rows = expand(spec, texts)
    settings = read_settings(model_config(parts_of(spec, artifact), version=""))
    with ExitStack() as stack:
        processes = [stack.enter_context(spawned_process()) for _ in range(spec.workers)]
        for future in [process.submit(_load, artifact, settings, rows) for process in processes]:
            future.result()
        yield BareGraphs(processes, len(texts) / len(rows))


class _LoadedModel(NamedTuple):
    signature: Any
    graphs: Any
    rows: list[Any]
    planner: Any
    megabytes: float


_loaded: list[_LoadedModel] = []  # of this process: one entry


def _load(artifact: Path, settings: Settings, texts: list[Instance]) -> None:
    import psutil

    from handlers.worker.archive.contents import read_contents
    from handlers.worker.members.loading import load_members
    from handlers.worker.rows.plan import Planner, max_sequence_length
    from handlers.worker.tasks import TASKS
    from handlers.worker.tokens.prompts import default_rows

    rss_before = psutil.Process().memory_info().rss
    (member,), _, _ = load_members(artifact, read_contents(artifact), settings, TASKS)
    megabytes = (psutil.Process().memory_info().rss - rss_before) / 1e6
    streams, signature = member.graphs
    rows = default_rows(texts, signature, member.reader, max_sequence_length(member.artifact.shapes), "truncate")
    _loaded.append(_LoadedModel(signature, streams[0], rows, Planner(member.times), megabytes))


def _run(seconds: float) -> BareResult:
    """Run half of the time with all rows at once, a quarter with single texts, and a quarter with pauses."""
    from handlers.worker.rows.calls import write_call

    (loaded,) = _loaded
    graphs, rows = loaded.graphs, loaded.rows
    plan = sorted(loaded.planner.plan([len(row.ids) for row in rows]), key=lambda call: call.shape)
    computed_rows, computing_s, last_shape = 0, 0.0, None
    end = time.perf_counter() + seconds / 2
    while not computed_rows or time.perf_counter() < end:
        for call in plan:
            if call.shape != last_shape:
                call_rows = [rows[index] for index in call.rows]
                write_call(graphs[call.shape], call, call_rows, loaded.signature)
                last_shape = call.shape
            start = time.perf_counter()
            graphs[call.shape].run(call.used_rows)
            computing_s += time.perf_counter() - start
            computed_rows += len(call.rows)
    single_latencies = _single_latencies(loaded, seconds / 4, pause_s=0.0)
    paced_ms = milliseconds(_single_latencies(loaded, seconds / 4, pause_s=PAUSE_S))["p50"]
    return BareResult(computed_rows / computing_s, encoded(single_latencies), paced_ms, loaded.megabytes)


def _single_latencies(loaded: _LoadedModel, seconds: float, pause_s: float) -> Any:
    """A histogram of the latencies of single texts, one after the other."""
    from handlers.worker.rows.calls import write_call

    latencies = new_histogram()
    end = time.perf_counter() + seconds
    while not latencies.total_count or time.perf_counter() < end:
        row = loaded.rows[latencies.total_count % len(loaded.rows)]
        (call,) = loaded.planner.plan([len(row.ids)])
        time.sleep(pause_s)
        write_call(loaded.graphs[call.shape], call, [row], loaded.signature)
        start = time.perf_counter()
        loaded.graphs[call.shape].run(call.used_rows)
        record(latencies, time.perf_counter() - start)
    return latencies
