"""Core groups: how the cores of a host are divided among workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Group = tuple[int, ...]


def parse_core_groups(text: str) -> tuple[int, ...]:
    """Parse group sizes in the format of NEURONCORE_GROUP_SIZES: "1,1,1,1" is four groups of one core.

    Raises:
        ValueError: not a comma-separated list of positive whole numbers.
    """
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError(f"{text!r} is not a list of core group sizes; write for example 1,1,1,1 or 4")
    return tuple(int(size) for size in sizes)


def possible_groups(cores: Sequence[int], size: int) -> list[Group]:
    """All runs of `size` contiguous cores; the runs that divide the cores without overlap come first.

    Args:
        cores: core numbers, ascending.
        size: the size of a group.
    """
    starts = [(run, start) for run in _runs(cores) for start in range(len(run) - size + 1)]
    starts.sort(key=lambda run_and_start: run_and_start[1] % size != 0)
    return [tuple(run[start : start + size]) for run, start in starts]


def lay_out(sizes: Sequence[int], cores: Iterable[int]) -> list[Group | None]:
    """Contiguous cores for groups of several sizes, without overlap; None for a group that finds no place.

    The largest group is placed first, each on the lowest cores that hold it. If every worker takes its group in this
    order, the cores of the other groups stay free, whichever worker starts or ends first.

    Args:
        sizes: the sizes of the groups.
        cores: the numbers of the free cores.
    """
    runs = _runs(sorted(cores))
    placed: list[Group | None] = [None] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        run = next((run for run in runs if len(run) >= sizes[index]), None)
        if run is not None:
            placed[index] = tuple(run[: sizes[index]])
            del run[: sizes[index]]
    return placed


def _runs(cores: Iterable[int]) -> list[list[int]]:
    """Cores in ascending order, divided into runs of contiguous numbers."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return runs


def parse_cores(text: str) -> Group:
    """Parse core numbers in the format of NEURON_RT_VISIBLE_CORES: "3", "3-6", "3,4,5" or "3-5,6".

    Raises:
        ValueError: the text has another format.
    """
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{text!r} is not a list of cores; write for example 0-3 or 2,3")
        cores += range(int(first), int(last if dash else first) + 1)
    return tuple(sorted(set(cores)))


def format_cores(group: Group) -> str:
    """Format contiguous cores for NEURON_RT_VISIBLE_CORES: "3" or "3-6"."""
    return f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0])
