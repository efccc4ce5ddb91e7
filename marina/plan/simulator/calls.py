"""The least time of the calls for a batch: the plans of `handlers.worker.rows.plan`, compiled."""

from __future__ import annotations

import numpy as np

from handlers.worker.values import TOKENS_A_TEXT
from marina.plan.simulator.values import Floats, Ints, Models, compiled


@compiled
def plan_calls(rows: Ints, count: int, model: int, models: Models, least: Floats, chosen: Ints) -> tuple[float, int]:
    """The calls that the workers' planner chooses for some rows of one model.

    Args:
        rows: the tokens of each row in its first `count` places, which are sorted here.
        count: number of rows.
        model: number of the model.
        models: with its tables of shapes.
        least, chosen: room for count + 1 values.

    Returns:
        The time of all calls, and the tokens that they compute.
    """
    ordered = np.sort(rows[:count])
    lot, lines_lot = models.lot[model], models.packed_lot[model]
    first, packers = models.packer[model], models.packer[model + 1] - models.packer[model]
    if packers == 0:
        _programme(ordered, lot, models, least, chosen)
        return _spent(count, models, chosen)
    # of the rows that are too long for the first k packers: where they start, the least time, and how they are packed
    starts, best = np.zeros(packers + 1, np.int64), np.zeros(packers + 1)
    used_packer, packed = np.full(packers + 1, -1), np.zeros(packers + 1, np.int64)
    line_least, line_chosen = np.empty(count + 1), np.empty(count + 1, np.int64)
    for number in range(packers):
        starts[number + 1] = np.searchsorted(ordered, models.packed_tokens[first + number], side="right")
    for part in range(packers, -1, -1):
        _programme(ordered[starts[part] :], lot, models, least, chosen)
        best[part] = least[count - starts[part]]
        for number in range(part, packers):
            own = ordered[starts[part] : starts[number + 1]]
            if own.size == 0:
                continue
            many = _best_count(own, first + number, models, least)
            loads = _loads(own[::-1][:many], first + number, models)
            _programme(loads, lines_lot, models, line_least, line_chosen)
            total = least[own.size - many] + line_least[loads.size] + best[number + 1]
            if total < best[part]:
                best[part], used_packer[part], packed[part] = total, number, many
    spent, computed, part = 0.0, 0, 0
    while starts[part] < count:
        _programme(ordered[starts[part] :], lot, models, least, chosen)
        number = used_packer[part]
        if number < 0:
            more, tokens = _spent(count - starts[part], models, chosen)
            return spent + more, computed + tokens
        own = ordered[starts[part] : starts[number + 1]]
        more, tokens = _spent(own.size - packed[part], models, chosen)
        spent, computed = spent + more, computed + tokens
        loads = _loads(own[::-1][: packed[part]], first + number, models)
        _programme(loads, lines_lot, models, line_least, line_chosen)
        more, tokens = _spent(loads.size, models, line_chosen)
        spent, computed = spent + more, computed + tokens
        part = number + 1
    return spent, computed


@compiled
def _best_count(own: Ints, packer: int, models: Models, least: Floats) -> int:
    """How many of the longest of some rows to pack, told by the time of lines of the packer's length alone."""
    used, _ = _pack(own[::-1], models.packed_tokens[packer], models.packed_texts[packer])
    times = _line_times(used[-1], packer, models)
    best, many = np.inf, 1
    for count in range(1, own.size + 1):
        total = least[own.size - count] + times[used[count - 1]]
        if total < best:
            best, many = total, count
    return many


@compiled
def _loads(descending: Ints, packer: int, models: Models) -> Ints:
    """The least sequence length that holds each line of some rows, ascending."""
    used, lines = _pack(descending, models.packed_tokens[packer], models.packed_texts[packer])
    tokens, texts = np.zeros(used[-1], np.int64), np.zeros(used[-1], np.int64)
    for row in range(descending.size):
        tokens[lines[row]] += descending[row]
        texts[lines[row]] += 1
    return np.sort(np.maximum(tokens, TOKENS_A_TEXT * texts))


@compiled
def _programme(ordered: Ints, lot: Ints, models: Models, least: Floats, chosen: Ints) -> None:
    """For the i shortest rows, the least time in the shapes of a table, and the entry of the last call."""
    least[0] = 0.0
    for last in range(ordered.size):
        best, best_entry = np.inf, 0
        for entry in range(lot[ordered[last]], lot[ordered[last] + 1]):
            size = models.sizes[entry]
            total = models.times[entry] + (least[last + 1 - size] if last >= size else 0.0)
            if total < best:
                best, best_entry = total, entry
        least[last + 1] = best
        chosen[last + 1] = best_entry


@compiled
def _spent(count: int, models: Models, chosen: Ints) -> tuple[float, int]:
    """The time of the calls for the first rows, and the tokens that they compute."""
    computed, end, spent, last = 0, count, 0.0, -1
    while end > 0:
        entry = chosen[end]
        spent += models.again[entry] if models.graph[entry] == last else models.times[entry]
        last = models.graph[entry]
        computed += models.padded[entry]
        end -= models.sizes[entry]
    return spent, computed


@compiled
def _pack(descending: Ints, length: int, most: int) -> tuple[Ints, Ints]:
    """By best-fit decreasing: the lines that are used up to each row, and the line of each row."""
    used, line_of = np.empty(descending.size, np.int64), np.empty(descending.size, np.int64)
    top = np.full(length + 1, -1)  # for every number of tokens left, the line that got it last
    below = np.empty(descending.size, np.int64)  # for each line, the one that got the same number before it
    texts = np.zeros(descending.size, np.int64)
    lines = 0
    for row in range(descending.size):
        tokens = descending[row]
        left = tokens
        while left <= length and top[left] < 0:
            left += 1
        if left <= length:
            line = top[left]
            top[left] = below[line]
        else:
            left, line = length, lines
            lines += 1
        line_of[row] = line
        texts[line] += 1
        rest = left - tokens
        if rest > 0 and texts[line] < most:
            below[line] = top[rest]
            top[rest] = line
        used[row] = lines
    return used, line_of


@compiled
def _line_times(lines: int, packer: int, models: Models) -> Floats:
    """For every number of lines, the least time of calls of shapes of the packer's length."""
    times = np.zeros(lines + 1)
    for number in range(1, lines + 1):
        times[number] = np.inf
        for entry in range(models.packed_first[packer], models.packed_first[packer + 1]):
            total = models.packed_times[entry] + times[max(0, number - models.packed_sizes[entry])]
            times[number] = min(times[number], total)
    return times
