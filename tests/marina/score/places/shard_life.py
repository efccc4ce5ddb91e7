"""Holds a sink to the life of shards, whatever its processes do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from marina.score.shards import TRANSITIONS, ShardEvent, ShardState
from marina.score.values import Counts, Shard, Sink

ROWS = 2
SHARDS = [Shard(number, ROWS, {"first": number * ROWS}) for number in range(4)]
EVENTS = st.lists(st.tuples(st.sampled_from(ShardEvent), st.integers(0, 7)), max_size=25)


def check_life(
    sinks: list[Sink],
    events: Sequence[tuple[ShardEvent, int]],
    expire: Callable[[], list[Sink]],
    answers: Callable[[Shard], Any],
    late_writes: bool,
) -> None:
    """Let the processes of a job do these things with its shards, and compare with the table after each.

    Args:
        sinks: of each process; the job has begun, with `SHARDS`.
        events: what happens, and which process or shard it happens to.
        expire: ends all claims; returns the sinks of the processes from then on.
        answers: makes the answers of a shard.
        late_writes: whether a process may still write a shard whose claim has expired.
    """
    states = dict.fromkeys(range(len(SHARDS)), ShardState.FREE)
    holders: dict[int, Sink] = {}

    def happen(event: ShardEvent, number: int) -> None:
        states[number] = TRANSITIONS[states[number], event]

    for event, choice in events:
        claimed = [number for number, state in states.items() if state is ShardState.CLAIMED]
        sink = sinks[choice % len(sinks)]
        if event is ShardEvent.CLAIM:
            shard = sink.claim()
            assert (shard is None) == (ShardState.FREE not in states.values())
            if shard:
                happen(event, shard.number)
                holders[shard.number] = sink
        elif event is ShardEvent.RENEW:
            sink.renew()
        elif event is ShardEvent.EXPIRE:
            sinks = expire()
            for number in claimed:
                happen(event, number)
            if not late_writes:
                holders = {number: holder for number, holder in holders.items() if states[number] is ShardState.DONE}
        elif event is ShardEvent.RELEASE and claimed:
            number = claimed[choice % len(claimed)]
            holders[number].release(SHARDS[number])
            happen(event, number)
        elif event is ShardEvent.WRITE and holders:
            number = list(holders)[choice % len(holders)]
            if states[number] is ShardState.FREE and not late_writes:
                continue
            holders[number].writer.write(SHARDS[number], answers(SHARDS[number]), Counts(ROWS))
            holders[number].written(SHARDS[number])
            happen(event, number)
        done = sum(state is ShardState.DONE for state in states.values())
        assert sinks[0].done() == Counts(ROWS * done)
        assert sinks[0].complete() == (done == len(SHARDS))
