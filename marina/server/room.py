"""Adds up the cores that models need together, before any of them starts: a NeuronCore belongs to one process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from handlers.worker.engines import engine_module
from handlers.worker.errors import PlacementError, WorkerError
from handlers.worker.placement import GROUP_SIZES, PLACEMENT_VARIABLES, Cores, core_groups, server_groups
from handlers.worker.placement.choice import remaining_sizes, server_of
from handlers.worker.placement.groups import lay_out, parse_core_groups
from handlers.worker.placement.leases import Holder, leases_folder, read_holders
from marina.archive.read import placement_of
from marina.errors import ServerError
from marina.server.run.state import RunState

SCALE_HINT = "give other models fewer workers with marina scale, or unregister one"


class Need(NamedTuple):
    """The cores that the workers of a model need.

    Attributes:
        name: the model.
        cores: the kind of cores.
        groups: the size of each worker's core group, from the model's archive.
    """

    name: str
    cores: Cores
    groups: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {','.join(map(str, self.groups))}"


def need_of(archive: Path) -> Need | None:
    """The need of an archive's workers; None if it is not an archive of Marina, and the server decides."""
    try:
        engine, groups = placement_of(archive)
        return Need(archive.stem, engine_module(engine).CORES, parse_core_groups(groups) if groups else (1,))
    except (WorkerError, OSError, KeyError, ValueError, TypeError):
        return None


def check_room(archives: Sequence[Path]) -> None:
    """Check that the cores of this machine are enough for all workers of these models, which a server starts with.

    Raises:
        ServerError: they are not; the message adds them up.
    """
    with _placement_errors():
        shortage = shortage_of([need for need in map(need_of, archives) if need])
    if shortage:
        raise ServerError(shortage, "serve fewer models, or give them fewer or smaller core_groups")


def shortage_of(needs: Sequence[Need]) -> str | None:
    """Why there are too few cores for all these models together; None if there are enough.

    Raises:
        PlacementError: there are no cores, or NEURONCORE_GROUP_SIZES cannot be parsed.
    """
    configured = server_groups()
    for kind, kind_needs in _exclusive_needs(needs):
        sizes = configured or tuple(size for need in kind_needs for size in need.groups)
        models, usable = " and ".join(map(str, kind_needs)), kind.usable()
        if None in lay_out(sizes, usable):
            demand = (
                f"{GROUP_SIZES}={','.join(map(str, sizes))} needs"
                if configured
                else f"the core groups of {models} need"
            )
            return f"{demand} {sum(sizes)} {kind.name}, and {len(usable)} can be used here"
        if configured and len(kind_needs) > 1 and sum(len(need.groups) for need in kind_needs) > len(configured):
            return (
                f"{GROUP_SIZES} has {len(configured)} groups for the workers of all models, "
                f"and {models} have more workers"
            )
    return None


def check_free_cores(archives: Sequence[Path], state: RunState, replaced: bool = False) -> None:
    """Check that a running server has free cores for all workers of more models, or of second versions.

    Args:
        archives: the models.
        state: of the server.
        replaced: whether the present workers of these models are stopped first.

    Raises:
        ServerError: there are too few; the message counts them.
    """
    needs = [need for need in map(need_of, archives) if need]
    with _placement_errors(), variables_of(state):
        for kind, kind_needs in _exclusive_needs(needs):
            holders, server_holders = _holders(kind, state)
            model_names = {need.name for need in kind_needs}
            stopped_holders = [holder for holder in server_holders if replaced and holder.model in model_names]
            remaining_holders = [holder for holder in holders if holder not in stopped_holders]
            models, sizes = " and ".join(map(str, kind_needs)), [size for need in kind_needs for size in need.groups]
            configured = server_groups()
            if configured:
                count = sum(
                    _worker_count(need, configured, model_names | {holder.model for holder in server_holders})
                    for need in kind_needs
                )
                free_groups = remaining_sizes(
                    configured, [holder for holder in server_holders if holder not in stopped_holders]
                )
                if count > len(free_groups):
                    groups = ",".join(map(str, configured))
                    shortage = (
                        f"{GROUP_SIZES}={groups} leaves {len(free_groups)} core groups, and {models} need {count}"
                    )
                    raise ServerError(shortage, SCALE_HINT)
                sizes = free_groups[:count]
            free_cores = set(kind.usable()) - {core for holder in remaining_holders for core in holder.cores}
            if None in lay_out(sizes, free_cores):
                raise ServerError(f"{models} need {sum(sizes)} {kind.name}, and {len(free_cores)} are free", SCALE_HINT)


def workers_of(need: Need, state: RunState, starting: Sequence[str]) -> int:
    """The number of workers for a model.

    If NEURONCORE_GROUP_SIZES is set, a model that is alone on its kind of cores gets a worker for each group.

    Args:
        need: the need of the model.
        state: of the server.
        starting: the names of the models that start together, on the same kind of cores.
    """
    with _placement_errors(), variables_of(state):
        configured = server_groups()
        if not configured:
            return len(need.groups)
        _, server_holders = _holders(need.cores, state)
        return _worker_count(need, configured, {*starting, *(holder.model for holder in server_holders)})


def _worker_count(need: Need, configured: Sequence[int], model_names: set[str]) -> int:
    """The number of workers of a model, on a server that has models with these names."""
    return len(configured) if model_names == {need.name} else len(need.groups)


def check_groups(archive: Path, workers: int, state: RunState) -> None:
    """Check that a model has a core group for each of so many workers; ServerError if not."""
    need = need_of(archive)
    if need is None or not need.cores.exclusive:
        return
    with _placement_errors(), variables_of(state):
        group_sizes = core_groups(placement_of(archive)[1])
        if group_sizes.sizes is None:
            return
        _, server_holders = _holders(need.cores, state)
        other_holders = [holder for holder in server_holders if group_sizes.for_server and holder.model != need.name]
        max_workers = len(remaining_sizes(group_sizes.sizes, other_holders))
    if workers > max_workers:
        raise ServerError(f"{need.name} can have {max_workers} workers at most, with {group_sizes}")


@contextmanager
def variables_of(state: RunState) -> Iterator[None]:
    """While active, this process has the variables for placing workers that the server was started with."""
    previous = {name: os.environ.pop(name, None) for name in PLACEMENT_VARIABLES}
    os.environ.update(state.variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _holders(kind: Cores, state: RunState) -> tuple[list[Holder], list[Holder]]:
    """The holders of a kind of cores, and the holders among them that are workers of a server."""
    holders, server = read_holders(leases_folder(kind.leases)), server_of(state.pid)
    return holders, [holder for holder in holders if holder.server == server]


def _exclusive_needs(needs: Sequence[Need]) -> list[tuple[Cores, list[Need]]]:
    """The needs for each kind of cores that belong to one process."""
    kinds = dict.fromkeys(need.cores for need in needs if need.cores.exclusive)
    return [(kind, [need for need in needs if need.cores == kind]) for kind in kinds]


@contextmanager
def _placement_errors() -> Iterator[None]:
    try:
        yield
    except PlacementError as error:
        raise ServerError(error.cause, error.fix) from None
