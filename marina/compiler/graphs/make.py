"""Makes the graphs of an artifact: compiles several at a time and checks each; keeps finished graphs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from handlers.worker.errors import NotFiniteError
from handlers.worker.values import Shape
from marina.compiler.graphs.session import CompileSession
from marina.compiler.graphs.tolerance import f32_tolerance
from marina.compiler.job import CompileJob
from marina.compiler.record import CheckedGraph, CompiledGraph
from marina.engines.values import CompileOptions
from marina.errors import CompileError
from marina.files import write_json

DONE = "done"  # folder with one record per finished step
Step = Callable[[str, int], None]  # a description of the current step, and the number of finished steps


def make_graphs(session: CompileSession, precision: str, step: Step) -> tuple[list[CheckedGraph], CompileOptions]:
    """Compile and check every graph, adding mitigations one by one until all outputs are finite.

    Args:
        session: the model's compile session.
        precision: the precision of the graphs, before mitigations.
        step: called to report progress.

    Returns:
        The graphs, and the options that they were compiled with.

    Raises:
        CompileError: no mitigation makes outputs finite, or outputs differ too much from the reference.
    """
    job, done = session.job, session.folder / DONE
    retry_note = ""
    for options in job.engine.compile_options(precision, job.runs):
        # the graphs of the next options replace these
        failure = done / f"{options.file_name('not-finite')}.json"
        if failure.exists():
            continue
        compiled_graphs = _compile_graphs(session, options, retry_note, step)
        used_precision = precision_of(job, options)
        tolerance = f32_tolerance(job) if used_precision == "f32" else math.inf  # others are judged by their answers
        checked_graphs: list[CheckedGraph] = []
        try:
            for graph in compiled_graphs:
                step(f"checking graph {graph.shape}", len(compiled_graphs) + len(checked_graphs))
                record = done / f"{options.file_name(str(graph.shape))}.checked.json"
                checked_graphs.append(_check_once(session, compiled_graphs, graph, used_precision, tolerance, record))
        except NotFiniteError as error:
            retry_note = " once more, as outputs were not finite"
            write_json(failure, {"error": str(error)})
        else:
            return checked_graphs, options
    tried_mitigations = f" with {', '.join(options.mitigations)}" if options.mitigations else ""
    reason = json.loads(failure.read_text())["error"]
    raise CompileError(
        f"{job.spec.name}: {reason}{tried_mitigations}; no artifact was written. Try another precision or engine"
    )


def precision_of(job: CompileJob, options: CompileOptions) -> str:
    """The precision of graphs that were compiled with these options: a mitigation may have raised it."""
    return job.engine.precision(job.spec.for_engine, options.mitigations) if options.mitigations else options.precision


def once(record: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of the work as JSON types; if an earlier run recorded it, the work is not repeated."""
    if not record.exists():
        write_json(record, work())
    result: dict[str, Any] = json.loads(record.read_text())
    return result


def _check_once(
    session: CompileSession,
    graphs: list[CompiledGraph],
    graph: CompiledGraph,
    precision: str,
    tolerance: float,
    record: Path,
) -> CheckedGraph:
    checked = once(record, lambda: {"parity": session.check_graph(graphs, graph, precision, tolerance)})
    return CheckedGraph(graph, checked["parity"])


def _compile_graphs(
    session: CompileSession, options: CompileOptions, retry_note: str, step: Step
) -> list[CompiledGraph]:
    """Compile every graph that is not there yet, several at a time if the compiler allows it."""
    shapes = session.job.shapes
    finished_count = itertools.count(1)

    def work(shape: Shape) -> CompiledGraph:
        step(f"graph {shape}{retry_note}", 0)
        record = session.folder / DONE / f"{options.file_name(str(shape))}.json"
        fields = once(record, lambda: session.compile_graph(shape, options).as_json())
        step(f"graph {shape}{retry_note}", next(finished_count))
        return CompiledGraph.from_json(fields)

    if session.max_parallel == 1:
        return [work(shape) for shape in shapes]
    with ThreadPoolExecutor(session.max_parallel) as threads:
        futures = [threads.submit(work, shape) for shape in shapes]
        try:
            return [future.result() for future in futures]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            session.stop()
            raise
