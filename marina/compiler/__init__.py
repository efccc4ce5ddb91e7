"""Compiles a model spec into an artifact.

spec -> job -> exported model -> graphs, each checked against the reference -> artifact
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from handlers.worker.placement import NEURON_ENGINES
from marina.compiler.build import Progress, build_artifact
from marina.compiler.cache import artifact_key, discard, is_complete
from marina.compiler.job import prepare_job
from marina.files import exclusive
from marina.project import Project
from marina.spec import Spec


class Compiled(NamedTuple):
    """The result of `compile_model`: the artifact's folder, and whether it was there already."""

    folder: Path
    reused: bool


def compile_model(spec: Spec, project: Project, progress: Progress) -> Compiled:
    """Make the artifact of a spec, or find it in the cache.

    Work that was cut off is taken up where it stopped; a second process waits for the first.

    Raises:
        SourceError, CompileError, SpecError: nothing is left behind, but graphs of Neuron engines that
            were finished.
    """
    job = prepare_job(spec, project.root)
    folder = project.artifacts / spec.name / artifact_key(job)
    if is_complete(folder):
        return Compiled(folder, reused=True)
    with exclusive(folder, lambda: progress("waiting for another run that compiles the same", 0, 1)):
        if is_complete(folder):
            return Compiled(folder, reused=True)
        discard(folder)
        partial = folder.with_suffix(".partial")
        try:
            build_artifact(job, partial, progress)
        except Exception:
            if spec.engine not in NEURON_ENGINES:  # what compiled there took minutes a graph
                discard(partial)
            raise
        partial.rename(folder)
    return Compiled(folder, reused=False)
