"""Compiles a model spec into an artifact.

Enters: a spec. Leaves: an artifact. Not known here: servers.

spec -> job -> exported model -> graphs, each checked against the reference -> artifact
"""

from __future__ import annotations

from pathlib import Path
from traceback import format_exception
from typing import NamedTuple

from handlers.worker.archive.artifact import read_artifact
from handlers.worker.errors import WorkerError
from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import default_parameters
from marina.compiler.build import build_artifact
from marina.compiler.cache import artifact_key, discard, is_complete
from marina.compiler.graphs.diagnosis import reason_of
from marina.compiler.job import prepare_job
from marina.console import Progress
from marina.errors import CompileError, MarinaError
from marina.files import explain, locked
from marina.project import Project
from marina.spec import Spec


class Compiled(NamedTuple):
    """The result of `compile_model`: the artifact's folder, and whether the artifact existed already."""

    folder: Path
    reused: bool


def compile_model(spec: Spec, project: Project, progress: Progress) -> Compiled:
    """Make the artifact of a spec, or find it in the cache.

    Interrupted work resumes where it stopped. If a second process compiles the same, it waits for the first.

    Raises:
        SourceError, CompileError, SpecError, WorkerError: no files remain except the finished graphs of Neuron
            engines, and the traceback of an unexpected error.
    """
    try:
        compiled = _compile(spec, project, progress)
        default_parameters(TASKS[spec.task], read_artifact(compiled.folder), spec.parameters)
        return compiled
    except (MarinaError, WorkerError):
        raise
    except Exception as error:
        raise _unexpected(spec, error, project.artifacts / spec.name) from error


def _compile(spec: Spec, project: Project, progress: Progress) -> Compiled:
    job = prepare_job(spec, project.root)
    folder = project.artifacts / spec.name / artifact_key(job)
    if is_complete(folder):
        return Compiled(folder, reused=True)
    with locked(
        folder.with_suffix(".lock"),
        waiting=lambda: progress("waiting for another run that compiles the same", 0, 1),
    ):
        if is_complete(folder):
            return Compiled(folder, reused=True)
        discard(folder)
        partial = folder.with_suffix(".partial")
        try:
            build_artifact(job, partial, progress)
        except Exception:
            if not job.engine.compiles_apart:  # for those engines, compiling took minutes
                discard(partial)
            raise
        partial.rename(folder)
    return Compiled(folder, reused=False)


def _unexpected(spec: Spec, error: Exception, folder: Path) -> CompileError:
    """The error for an unexpected failure; its traceback is written to a file if the disk has room."""
    if isinstance(error, OSError):
        return CompileError(f"{spec.name}: compiling failed: {explain(error)}; no artifact was written")
    log = folder / "error.log"
    try:
        log.write_text("".join(format_exception(error)))
        where = f"; its traceback is in {log}"
    except OSError:
        where = ""
    return CompileError(
        f"{spec.name}: compiling failed with {type(error).__name__}: {reason_of(error)}; no artifact was "
        f"written. That is a fault of Marina or of a library below it{where}"
    )
