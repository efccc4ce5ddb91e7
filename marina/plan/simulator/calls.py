"""The least time of the calls for a batch: the plans of `handlers.worker.rows.plan`, compiled.

Workers also let shorter rows fill the lines of large batches (`MANY_ROWS`), and may be a few percent faster then.
"""

from __future__ import annotations

import numpy as np

from handlers.worker.values import TOKENS_A_TEXT
from marina.plan.simulator.values import Floats, Ints, Models, compiled


@compiled
def plan_calls(
    rows: Ints, count: int, model: int, models: Models, min_times: Floats, last_entries: Ints
) -> tuple[float, int]:
    """The calls that the workers' planner chooses for some rows of one model.

    Args:
        rows: the tokens of each row in its first `count` places, which are sorted here.
        count: number of rows.
        model: number of the model.
        models: with its tables of shapes.
        min_times, last_entries: room for count + 1 values.

    Returns:
        The time of all calls, and the tokens that they compute.
    """
    ordered = np.sort(rows[:count])
    entry_starts, line_entry_starts = models.entry_starts[model], models.line_entry_starts[model]
    first_packer, packers = models.packer_starts[model], models.packer_starts[model + 1] - models.packer_starts[model]
    if packers == 0:
        _fill_min_times(ordered, entry_starts, models, min_times, last_entries)
        return _time_and_tokens(count, models, last_entries)
    # index k is for the rows that are too long for the first k packers: their start, their least time, their packing
    starts, best_times = np.zeros(packers + 1, np.int64), np.zeros(packers + 1)
    best_packer, best_packed = np.full(packers + 1, -1), np.zeros(packers + 1, np.int64)
    line_min_times, line_last_entries = np.empty(count + 1), np.empty(count + 1, np.int64)
    for number in range(packers):
        starts[number + 1] = np.searchsorted(ordered, models.packed_tokens[first_packer + number], side="right")
    for part in range(packers, -1, -1):
        _fill_min_times(ordered[starts[part] :], entry_starts, models, min_times, last_entries)
        best_times[part] = min_times[count - starts[part]]
        for number in range(part, packers):
            packable = ordered[starts[part] : starts[number + 1]]
            if packable.size == 0:
                continue
            packed_count = _best_packed_count(packable, first_packer + number, models, min_times)
            loads = _line_loads(packable[::-1][:packed_count], first_packer + number, models)
            _fill_min_times(loads, line_entry_starts, models, line_min_times, line_last_entries)
            total = min_times[packable.size - packed_count] + line_min_times[loads.size] + best_times[number + 1]
            if total < best_times[part]:
                best_times[part], best_packer[part], best_packed[part] = total, number, packed_count
    time, computed, part = 0.0, 0, 0
    while starts[part] < count:
        _fill_min_times(ordered[starts[part] :], entry_starts, models, min_times, last_entries)
        number = best_packer[part]
        if number < 0:
            call_time, tokens = _time_and_tokens(count - starts[part], models, last_entries)
            return time + call_time, computed + tokens
        packable = ordered[starts[part] : starts[number + 1]]
        call_time, tokens = _time_and_tokens(packable.size - best_packed[part], models, last_entries)
        time, computed = time + call_time, computed + tokens
        loads = _line_loads(packable[::-1][: best_packed[part]], first_packer + number, models)
        _fill_min_times(loads, line_entry_starts, models, line_min_times, line_last_entries)
        call_time, tokens = _time_and_tokens(loads.size, models, line_last_entries)
        time, computed = time + call_time, computed + tokens
        part = number + 1
    return time, computed


@compiled
def _best_packed_count(packable: Ints, packer: int, models: Models, min_times: Floats) -> int:
    """How many of the longest packable rows to pack, by the time of lines of the packer's length alone."""
    used, _ = _pack(packable[::-1], models.packed_tokens[packer], models.packed_texts[packer])
    times = _line_times(used[-1], packer, models)
    best_time, best_count = np.inf, 1
    for count in range(1, packable.size + 1):
        total = min_times[packable.size - count] + times[used[count - 1]]
        if total < best_time:
            best_time, best_count = total, count
    return best_count


@compiled
def _line_loads(descending: Ints, packer: int, models: Models) -> Ints:
    """The least sequence length that holds each line of some rows, ascending."""
    used, lines = _pack(descending, models.packed_tokens[packer], models.packed_texts[packer])
    tokens, texts = np.zeros(used[-1], np.int64), np.zeros(used[-1], np.int64)
    for row in range(descending.size):
        tokens[lines[row]] += descending[row]
        texts[lines[row]] += 1
    return np.sort(np.maximum(tokens, TOKENS_A_TEXT * texts))


@compiled
def _fill_min_times(ordered: Ints, entry_starts: Ints, models: Models, min_times: Floats, last_entries: Ints) -> None:
    """For the i shortest rows, the least time in the shapes of a table, and the entry of the last call."""
    min_times[0] = 0.0
    for last in range(ordered.size):
        best_time, best_entry = np.inf, 0
        for entry in range(entry_starts[ordered[last]], entry_starts[ordered[last] + 1]):
            size = models.sizes[entry]
            total = models.times[entry] + (min_times[last + 1 - size] if last >= size else 0.0)
            if total < best_time:
                best_time, best_entry = total, entry
        min_times[last + 1] = best_time
        last_entries[last + 1] = best_entry


@compiled
def _time_and_tokens(count: int, models: Models, last_entries: Ints) -> tuple[float, int]:
    """The time of the calls for the first rows, and the tokens that they compute."""
    computed, end, time, last_graph = 0, count, 0.0, -1
    while end > 0:
        entry = last_entries[end]
        time += models.again[entry] if models.graph[entry] == last_graph else models.times[entry]
        last_graph = models.graph[entry]
        computed += models.padded[entry]
        end -= models.sizes[entry]
    return time, computed


@compiled
def _pack(descending: Ints, length: int, max_texts: int) -> tuple[Ints, Ints]:
    """By best-fit decreasing: the number of lines used up to each row, and the line of each row."""
    used, line_of = np.empty(descending.size, np.int64), np.empty(descending.size, np.int64)
    newest_line = np.full(length + 1, -1)  # for every number of tokens left, the line that was the last to have it
    previous_line = np.empty(descending.size, np.int64)  # for each line, the line before it with as many tokens left
    texts = np.zeros(descending.size, np.int64)
    lines = 0
    for row in range(descending.size):
        tokens = descending[row]
        left = tokens
        while left <= length and newest_line[left] < 0:
            left += 1
        if left <= length:
            line = newest_line[left]
            newest_line[left] = previous_line[line]
        else:
            left, line = length, lines
            lines += 1
        line_of[row] = line
        texts[line] += 1
        unused = left - tokens
        if unused > 0 and texts[line] < max_texts:
            previous_line[line] = newest_line[unused]
            newest_line[unused] = line
        used[row] = lines
    return used, line_of


@compiled
def _line_times(lines: int, packer: int, models: Models) -> Floats:
    """For every number of lines, the least time of calls of shapes of the packer's length."""
    times = np.zeros(lines + 1)
    for number in range(1, lines + 1):
        times[number] = np.inf
        for entry in range(models.packed_starts[packer], models.packed_starts[packer + 1]):
            total = models.packed_times[entry] + times[max(0, number - models.packed_sizes[entry])]
            times[number] = min(times[number], total)
    return times
