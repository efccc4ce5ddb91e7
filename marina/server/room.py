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
from handlers.worker.placement.choice import remaining, server_of
from handlers.worker.placement.groups import lay_out, parse_core_groups
from handlers.worker.placement.leases import Holder, leases_folder, read_holders
from marina.archive.read import placement_of
from marina.errors import ServerError
from marina.server.state import RunState

SCALE = "give other models fewer workers with marina scale, or unregister one"


class Need(NamedTuple):
    """What the workers of a model compute on.

    Attributes:
        name: the model.
        cores: the kind of cores.
        groups: the size of each worker's group, by the model's archive.
    """

    name: str
    cores: Cores
    groups: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {','.join(map(str, self.groups))}"


def need_of(archive: Path) -> Need | None:
    """What the workers of an archive need; None if it is not one of Marina's, and the server decides."""
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
    given = server_groups()
    for kind, own in _exclusive(needs):
        sizes = given or tuple(size for need in own for size in need.groups)
        each, usable = " and ".join(map(str, own)), kind.usable()
        if None in lay_out(sizes, usable):
            what = f"{GROUP_SIZES}={','.join(map(str, sizes))} needs" if given else f"the core groups of {each} need"
            return f"{what} {sum(sizes)} {kind.name}, and {len(usable)} can be used here"
        if given and len(own) > 1 and sum(len(need.groups) for need in own) > len(given):
            return f"{GROUP_SIZES} has {len(given)} groups for the workers of all models, and {each} have more workers"
    return None


def check_beside(archives: Sequence[Path], state: RunState, replaced: bool = False) -> None:
    """Check that a running server has free cores for all workers of more models, or of second versions.

    Args:
        archives: the models.
        state: of the server.
        replaced: whether the workers that these models have now are stopped first.

    Raises:
        ServerError: there are too few; the message counts them.
    """
    needs = [need for need in map(need_of, archives) if need]
    with _placement_errors(), variables_of(state):
        for kind, own in _exclusive(needs):
            holders, mine = _holders(kind, state)
            names = {need.name for need in own}
            gone = [one for one in mine if replaced and one.model in names]
            stay = [holder for holder in holders if holder not in gone]
            each, sizes = " and ".join(map(str, own)), [size for need in own for size in need.groups]
            given = server_groups()
            if given:
                count = sum(_workers(need, given, names | {one.model for one in mine}) for need in own)
                left = remaining(given, [one for one in mine if one not in gone])
                if count > len(left):
                    groups = ",".join(map(str, given))
                    what = f"{GROUP_SIZES}={groups} leaves {len(left)} core groups, and {each} need {count}"
                    raise ServerError(what, SCALE)
                sizes = left[:count]
            free = set(kind.usable()) - {core for one in stay for core in one.cores}
            if None in lay_out(sizes, free):
                raise ServerError(f"{each} need {sum(sizes)} {kind.name}, and {len(free)} are free", SCALE)


def workers_of(need: Need, state: RunState, starting: Sequence[str]) -> int:
    """The number of workers that a model gets.

    If NEURONCORE_GROUP_SIZES is set, a model that is alone on its kind of cores gets a worker for each group.

    Args:
        need: the model's.
        state: of the server.
        starting: the names of the models that start now, on the same kind of cores.
    """
    with _placement_errors(), variables_of(state):
        given = server_groups()
        if not given:
            return len(need.groups)
        _, mine = _holders(need.cores, state)
        return _workers(need, given, {*starting, *(one.model for one in mine)})


def _workers(need: Need, given: Sequence[int], names: set[str]) -> int:
    """The number of workers of a model, beside which a server has models with these names."""
    return len(given) if names == {need.name} else len(need.groups)


def check_groups(archive: Path, workers: int, state: RunState) -> None:
    """Check that a model has a core group for each of so many workers; ServerError if not."""
    need = need_of(archive)
    if need is None or not need.cores.exclusive:
        return
    with _placement_errors(), variables_of(state):
        sizes = core_groups(placement_of(archive)[1])
        if sizes.sizes is None:
            return
        _, mine = _holders(need.cores, state)
        others = [one for one in mine if sizes.together and one.model != need.name]
        most = len(remaining(sizes.sizes, others))
    if workers > most:
        raise ServerError(f"{need.name} can have {most} workers at most, with {sizes}")


@contextmanager
def variables_of(state: RunState) -> Iterator[None]:
    """While active, this process has the variables for placing workers that the server was started with."""
    before = {name: os.environ.pop(name, None) for name in PLACEMENT_VARIABLES}
    os.environ.update(state.variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _holders(kind: Cores, state: RunState) -> tuple[list[Holder], list[Holder]]:
    """The holders of a kind of cores, and those of them that are workers of a server."""
    holders, server = read_holders(leases_folder(kind.leases)), server_of(state.pid)
    return holders, [holder for holder in holders if holder.server == server]


def _exclusive(needs: Sequence[Need]) -> list[tuple[Cores, list[Need]]]:
    """The needs for each kind of cores that belong to one process."""
    kinds = dict.fromkeys(need.cores for need in needs if need.cores.exclusive)
    return [(kind, [need for need in needs if need.cores == kind]) for kind in kinds]


@contextmanager
def _placement_errors() -> Iterator[None]:
    try:
        yield
    except PlacementError as error:
        raise ServerError(error.cause, error.fix) from None
