"""The life of a shard."""

from __future__ import annotations

from marina.score.shards import TRANSITIONS, ShardEvent, ShardState


def test_every_shard_can_still_be_done() -> None:
    for state in ShardState:
        assert TRANSITIONS[state, ShardEvent.WRITE] is ShardState.DONE


def test_only_a_free_shard_is_claimed_and_no_claim_is_for_ever() -> None:
    assert [state for state, event in TRANSITIONS if event is ShardEvent.CLAIM] == [ShardState.FREE]
    assert TRANSITIONS[ShardState.CLAIMED, ShardEvent.EXPIRE] is ShardState.FREE
    assert TRANSITIONS[ShardState.CLAIMED, ShardEvent.RELEASE] is ShardState.FREE


def test_what_is_done_stays_done() -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before is ShardState.DONE} == {ShardState.DONE}
