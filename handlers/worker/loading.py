"""Loads the models of an archive on the cores of a worker: one, or the members of a bundle.

A member that fails does not keep the others from being served. If every one fails, the first error is raised; so it is
in an archive that is no bundle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from handlers.worker.contents import Contents
from handlers.worker.engines import Runtime, Setup, engine_module, open_runtime
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.member import Member, OpenedArtifact, open_artifact, shared_readers
from handlers.worker.placement import Placement, place
from handlers.worker.settings import Settings
from handlers.worker.tasks.base import Task

TIMING_BUDGET_S = 1.5  # at a worker's start, for all graphs together
T = TypeVar("T")


class Loaded(NamedTuple):
    """The models of an archive.

    Attributes:
        members: those that passed their golden rows.
        failures: why others failed, by name.
        placement: the worker's cores.
    """

    members: list[Member]
    failures: dict[str, Exception]
    placement: Placement


def load_members(folder: Path, contents: Contents, settings: Settings, tasks: Mapping[str, Task]) -> Loaded:
    """Load the models of an archive.

    Args:
        folder: the artifact folder of the archive.
        contents: what it holds.
        settings: how to serve it.
        tasks: the tasks that the archive's handler has, by name.

    Raises:
        PlacementError: the worker cannot get the cores that it needs.
        ArtifactError, GoldenError: every model failed.
    """
    readers = shared_readers()

    def open_one(name: str) -> OpenedArtifact:
        return open_artifact(folder / contents.folders[name], contents.stored[name], tasks, readers)

    opened, unreadable = _each(contents.folders, open_one)
    placement = place(engine_module(contents.engine).CORES, settings.core_groups, contents.name, settings.version)
    # threads of the tokenizer; if there is only one, handing work over to it costs more than it saves
    os.environ["RAYON_NUM_THREADS"] = str(placement.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if placement.threads > 1 else "false"
    runtimes: dict[str, Runtime] = {}

    def load_one(name: str) -> Member:
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
        # models with the same setup share a runtime, and with it a file of weights that both have
        if repr(setup) not in runtimes:
            runtimes[repr(setup)] = open_runtime(artifact.engine, setup)
        return Member(
            opened[name],
            settings.members[name],
            tasks[artifact.task],
            runtimes[repr(setup)],
            TIMING_BUDGET_S / len(opened),
        )

    members, failed = _each(opened, load_one)
    return Loaded(list(members.values()), {**unreadable, **failed}, placement)


def _each(names: Iterable[str], work: Callable[[str], T]) -> tuple[dict[str, T], dict[str, Exception]]:
    """Do the work for every name; returns the results and the errors. If all fail, the first error is raised."""
    done: dict[str, T] = {}
    failed: dict[str, Exception] = {}
    for name in names:
        try:
            done[name] = work(name)
        except PlacementError:  # for all of them
            raise
        except Exception as error:
            error.__context__ = None
            failed[name] = error.with_traceback(None)  # which would keep its graphs in memory
    if not done:
        raise next(iter(failed.values()))
    return done, failed
