"""Makes the graphs of an artifact: compiles them, several at a time, and checks each; finished ones are kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from handlers.worker.artifact import Artifact
from handlers.worker.errors import NotFiniteError
from handlers.worker.values import Shape
from marina.compiler.engines import Recipe
from marina.compiler.workshop import Workshop
from marina.errors import CompileError
from marina.files import write_json

DONE = "done"  # folder with a record for everything that is finished
Step = Callable[[str, int], None]  # what is being done, and how many steps are


def make_graphs(workshop: Workshop, artifact: Artifact, step: Step) -> tuple[list[dict[str, Any]], Recipe]:
    """Compile and check every graph, with one remedy after another until their outputs are finite.

    Returns:
        Their entries in `artifact.json`, and with what they were compiled.

    Raises:
        CompileError: no remedy helps, or outputs differ too much from the reference.
    """
    why = ""
    for recipe in workshop.recipes(artifact.precision):
        # the next recipe's graphs take the place of this one's
        failure = artifact.folder / DONE / f"{recipe.file_name('not-finite')}.json"
        if failure.exists():
            continue
        compiled = _compile_graphs(workshop, recipe, artifact.folder / DONE, why, step)
        records: list[dict[str, Any]] = []
        try:
            for record in compiled:
                step(f"checking graph {record['shape']}", len(compiled) + len(records))
                done = artifact.folder / DONE / f"{recipe.file_name(record['shape'])}.checked.json"
                records.append({**record, **once(done, partial(workshop.check_graph, record, artifact))})
        except NotFiniteError as error:
            why = " once more, as outputs were not finite"
            write_json(failure, {"error": str(error)})
        else:
            return records, recipe
    tried = f" with {', '.join(recipe.mitigations)}" if recipe.mitigations else ""
    found = json.loads(failure.read_text())["error"]
    raise CompileError(f"{artifact.name}: {found}{tried}; no artifact was written. Try another precision or engine")


def _compile_graphs(workshop: Workshop, recipe: Recipe, done: Path, why: str, step: Step) -> list[dict[str, Any]]:
    """Compile every graph, several at a time where the compiler allows it; those that are there are kept."""
    shapes = workshop.shapes
    finished = itertools.count(1)

    def work(shape: Shape) -> dict[str, Any]:
        step(f"graph {shape}{why}", 0)
        record = done / f"{recipe.file_name(str(shape))}.json"
        found = once(record, partial(workshop.compile_graph, shape, recipe))
        step(f"graph {shape}{why}", next(finished))
        return found

    if workshop.compiler.at_once == 1:
        return [work(shape) for shape in shapes]
    with ThreadPoolExecutor(workshop.compiler.at_once) as threads:
        futures = [threads.submit(work, shape) for shape in shapes]
        try:
            return [future.result() for future in futures]
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            workshop.compiler.stop()
            raise


def once(record: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of work that an earlier run may have done."""
    if not record.exists():
        write_json(record, work())
    found: dict[str, Any] = json.loads(record.read_text())
    return found
