"""Core groups: how the cores of a host are divided among workers."""

from __future__ import annotations

from collections.abc import Sequence

Group = tuple[int, ...]


def parse_core_groups(text: str) -> tuple[int, ...]:
    """Read group sizes as NEURONCORE_GROUP_SIZES writes them: "1,1,1,1" is four groups of one core.

    Raises:
        ValueError: not a comma-separated list of positive whole numbers, or not all the same: the
            workers of a model serve the same graphs.
    """
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError(f"{text!r} is not a list of core group sizes; write for example 1,1,1,1 or 4")
    if len({int(size) for size in sizes}) > 1:
        raise ValueError(f"core groups must be of one size, for example 2,2 (given: {text!r})")
    return tuple(int(size) for size in sizes)


def possible_groups(cores: Sequence[int], size: int) -> list[Group]:
    """Every run of `size` contiguous cores, first those that divide the cores without overlap.

    Args:
        cores: numbers of cores, ascending.
        size: of a group.
    """
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    starts = [(run, start) for run in runs for start in range(len(run) - size + 1)]
    starts.sort(key=lambda place: place[1] % size != 0)
    return [tuple(run[start : start + size]) for run, start in starts]


def parse_cores(text: str) -> Group:
    """Read core numbers as NEURON_RT_VISIBLE_CORES writes them: "3", "3-6", "3,4,5" or "3-5,6".

    Raises:
        ValueError: it is written in another way.
    """
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{text!r} is not a list of cores; write for example 0-3 or 2,3")
        cores += range(int(first), int(last if dash else first) + 1)
    return tuple(sorted(set(cores)))


def format_cores(group: Group) -> str:
    """Write contiguous cores as NEURON_RT_VISIBLE_CORES takes them: "3" or "3-6"."""
    return f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0])
