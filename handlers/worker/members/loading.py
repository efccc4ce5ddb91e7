"""Loads the models of an archive on the cores of a worker: one, or the members of a bundle.

A member that fails does not keep other members from being served. If all members fail, the first error is raised; so
it is in an archive that is no bundle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from handlers.worker.archive.contents import Contents
from handlers.worker.engines import Runtime, Setup, engine_module, open_runtime
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.members.member import Member, OpenedArtifact, open_artifact, shared_readers
from handlers.worker.placement import Placement, place
from handlers.worker.settings import Settings
from handlers.worker.tasks.base import Task

TIMING_BUDGET_S = 1.0  # at a worker's start, for all graphs together
T = TypeVar("T")


def load_members(
    folder: Path, contents: Contents, settings: Settings, tasks: Mapping[str, Task]
) -> tuple[list[Member], dict[str, Exception], Placement]:
    """Load the models of an archive.

    Args:
        folder: the artifact folder of the archive.
        contents: the contents of the folder.
        settings: how to serve it.
        tasks: the tasks that the archive's handler has, by name.

    Returns:
        The models that passed their golden rows; the errors of the others, by name; and the worker's cores.

    Raises:
        PlacementError: the worker cannot get the cores that it needs.
        ArtifactError, GoldenError: every model failed.
    """
    readers = shared_readers()

    def open_member(name: str) -> OpenedArtifact:
        return open_artifact(folder / contents.folders[name], contents.stored[name], tasks, readers)

    opened, open_errors = _for_each(contents.folders, open_member)
    placement = place(engine_module(contents.engine).CORES, settings.core_groups, contents.name, settings.version)
    # threads of the tokenizer; if there is only one, handing work over to it costs more than it saves
    os.environ["RAYON_NUM_THREADS"] = str(placement.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if placement.threads > 1 else "false"
    runtimes: dict[str, Runtime] = {}

    def load_member(name: str) -> Member:
        artifact = opened[name].artifact
        if name not in settings.members:
            raise ArtifactError(f"model-config.yaml has no settings for {name}; pack a new archive")
        setup = Setup(
            cores=len(placement.cores),
            threads=placement.threads,
            precision=artifact.precision,
            mode=settings.mode,
            compiler=artifact.compiler,
            versions=artifact.versions,
        )
        # models with the same setup share a runtime, and thereby their common files of weights
        if repr(setup) not in runtimes:
            runtimes[repr(setup)] = open_runtime(artifact.engine, setup)
        return Member(
            opened[name],
            settings.members[name],
            tasks[artifact.task],
            runtimes[repr(setup)],
            TIMING_BUDGET_S / len(opened),
        )

    members, load_errors = _for_each(opened, load_member)
    return list(members.values()), {**open_errors, **load_errors}, placement


def _for_each(names: Iterable[str], work: Callable[[str], T]) -> tuple[dict[str, T], dict[str, Exception]]:
    """Do the work for every name; returns the results and the errors. If all fail, the first error is raised."""
    results: dict[str, T] = {}
    errors: dict[str, Exception] = {}
    for name in names:
        try:
            results[name] = work(name)
        except PlacementError:  # concerns all members
            raise
        except Exception as error:
            error.__context__ = None
            errors[name] = error.with_traceback(None)  # a traceback would keep the member's graphs in memory
    if not results:
        raise next(iter(errors.values()))
    return results, errors
