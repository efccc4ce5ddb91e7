"""What the simulator does with single requests, to the millisecond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handlers.worker.values import Shape
from marina.plan.simulator.system import Service, WorkerModel, lay_out, machines_of, models_of
from marina.plan.simulator.values import ANSWERED, LOST, QUEUE_FULL, Requests, SimulationResult
from tests.marina.plan.simulator.systems import at_times, run, service_of

MS = 5.0
SEEDS = range(12)  # as chance decides between instances that have as many requests
PAIR = [40.0, 40.0]


def two(at: list[float], seed: int, service: Service | None = None, **machine: Any) -> SimulationResult:
    """Two instances behind a balancer that takes the one with the fewest requests."""
    return run(at_times(at), [service_of(MS)], [service or Service()], seed=seed, count=2, least_loaded=True, **machine)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_balancer_takes_the_instance_with_the_fewest_requests(seed: int) -> None:
    found = run(at_times([0.0] * 6 + [11.0] * 3), [service_of(MS)], [Service()], seed=seed, count=3, least_loaded=True)
    assert sorted(found.latency[:6]) == pytest.approx([MS] * 3 + [2 * MS] * 3)
    assert found.latency[6:].tolist() == pytest.approx([MS] * 3)
    uneven = two([0.0, 0.0, 0.0, 6.0], seed)
    # at 6 ms one instance still computes the third request
    assert uneven.latency[3] == pytest.approx(MS)


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_that_are_refused_do_not_count_any_more(seed: int) -> None:
    refused = two([0.0] * 9 + PAIR, seed, Service(queue=1))
    assert sorted(refused.status[:9]) == [ANSWERED] * 4 + [QUEUE_FULL] * 5
    assert refused.latency[-2:].tolist() == pytest.approx([MS, MS])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("instance", [0, 1])
def test_an_instance_that_comes_back_is_as_new(seed: int, instance: int) -> None:
    down, up, lost = np.full(2, np.inf), np.full(2, np.inf), np.zeros(2, np.int64)
    down[instance], up[instance], lost[instance] = 1.0, 10.0, 1
    found = two([0.0] * 5 + [2.0] + PAIR, seed, down=down, up=up, lost=lost)
    gone = int((found.status == LOST).sum())
    assert gone in (2, 3)
    assert (found.status[5:] == ANSWERED).all()  # while it is away, the other one takes all
    assert found.latency[5] == pytest.approx((5 - gone) * MS - 2 + MS)
    assert found.latency[-2:].tolist() == pytest.approx([MS, MS])


def test_all_that_a_lost_instance_has_is_lost() -> None:
    """Of each model, and of each worker: computed, formed and waiting."""
    services = [Service(groups=(1, 1), batch_size=2, delay_ms=4), Service()]
    costs = [service_of(MS), service_of(MS)]
    down, up, lost = np.array([np.inf, 3.0]), np.array([np.inf, 4.0]), np.array([0, 1])
    at = [0.0] * 12 + [2.5] * 4 + [50.0] * 12
    for seed in SEEDS:
        found = run(at_times(at, 2), costs, services, 3, seed, count=2, least_loaded=True, down=down, up=up, lost=lost)
        assert (found.status[:16] == LOST).sum() == 8
        assert (found.status[16:] == ANSWERED).all()
        # each instance computes its half of them
        assert found.latency[16:].max() <= 4 + 6 * MS


def test_without_an_instance_requests_are_lost() -> None:
    found = run(at_times([0.0, 2.0, 6.0]), [service_of(MS)], [Service()], down=np.array([1.0]), up=np.array([6.0]))
    assert found.status.tolist() == [ANSWERED, LOST, ANSWERED]
    assert np.isnan(found.latency[1])


def test_a_closed_loop_goes_on_after_every_kind_of_end() -> None:
    count = 60
    requests = at_times(np.zeros(count), connections=6)
    found = run(requests, [service_of(MS)], [Service(queue=2)])
    assert np.isin(found.status, [ANSWERED, QUEUE_FULL]).all()
    assert (found.status == ANSWERED).any()
    assert (found.status == QUEUE_FULL).any()
    # a connection tries again a millisecond after it was refused
    found = run(at_times(np.zeros(3), connections=2), [service_of(MS)], [Service(queue=0)])
    assert found.status.tolist() == [QUEUE_FULL] * 3
    assert found.sent.tolist() == pytest.approx([0.0, 0.01, 1.0])
    lost = run(at_times(np.zeros(3), connections=1), [service_of(MS)], [Service()], down=np.zeros(1), up=np.ones(1))
    assert lost.status.tolist() == [LOST, ANSWERED, ANSWERED]
    assert lost.sent.tolist() == pytest.approx([0.0, 1.0, 6.0])


def test_every_part_of_a_batch_has_its_time() -> None:
    parts = {"batch": 0.5, "request": 0.25, "instance": 0.125, "token": 0.01, "gap": 0.75, "handing": 0.375}
    # two requests, of one text and of two
    requests = Requests(np.zeros(2), np.zeros(2, np.int64), np.array([0, 1, 3]), np.array([10, 7, 3]), 0)
    found = run(requests, [service_of(MS, **parts)], [Service(batch_size=2)])
    computing = 3 * MS + 0.5 + 2 * 0.25 + 3 * 0.125 + 20 * 0.01
    assert found.latency.tolist() == pytest.approx([0.75 + 2 * 0.375 + computing] * 2)
    assert found.busy.tolist() == pytest.approx([0.75 + 2 * 0.375 + computing])
    assert (found.batches.tolist(), found.batched.tolist()) == ([1], [2])
    assert (found.computed.tolist(), found.real.tolist()) == ([3 * 16], [20])
    assert found.end == pytest.approx(found.latency[0])


def test_what_is_counted_is_counted_for_each_model() -> None:
    services = [Service(batch_size=2), Service(groups=(1, 1))]
    found = run(at_times([0.0] * 6, 2), [service_of(MS), service_of(2 * MS)], services, cores=3)
    assert (found.batches.tolist(), found.batched.tolist()) == ([2, 3], [3, 3])
    assert (found.computed.tolist(), found.real.tolist()) == ([48, 48], [30, 30])
    assert found.busy.tolist() == pytest.approx([3 * MS, 4 * MS, 2 * MS])
    assert found.end == pytest.approx(4 * MS)


def test_after_a_pause_an_answer_takes_longer() -> None:
    costs = [service_of(MS, idle=(1.0,))]
    at = [0.0, MS + 5.0, 2 * MS + 5.0 + 5.1]
    # a worker sleeps after more than 5 ms
    assert run(at_times(at), costs, [Service()]).latency.tolist() == pytest.approx([MS + 1, MS, MS + 1])


def test_chance_takes_each_value_as_often() -> None:
    found = run(at_times(np.arange(4000) * 20.0), [service_of(MS, spread=(0.5, 1.0, 2.0))], [Service()])
    values, counts = np.unique(np.round(found.latency, 6), return_counts=True)
    assert values.tolist() == pytest.approx(np.quantile([0.5, 1, 2], [1 / 6, 1 / 2, 5 / 6]) * MS)
    assert counts == pytest.approx(4000 / 3, rel=0.1)


def test_costs_are_nothing_unless_they_are_given() -> None:
    shape = Shape(1, 16)
    costs = WorkerModel({shape: MS}, {shape: MS})
    assert run(at_times([0.0]), [costs], [Service()]).latency.tolist() == [MS]
    assert costs[2:] == ((1.0,), (0.0,), *[0.0] * 9, 1.0)
    assert Service() == Service((1,), 1, 1, 1_000_000)
    machines = machines_of([Service(groups=(1, 2))], 2)
    assert (machines.instances, machines.cores, machines.least_loaded) == (1, 2, False)
    assert [machines.contention, machines.stolen, machines.entering, machines.timer] == [0.0] * 4
    assert machines.core_usage.tolist() == [1.0, 1.0]
    assert (machines.down.tolist(), machines.up.tolist(), machines.lost.tolist()) == ([np.inf], [np.inf], [0])


def test_tables_name_the_shapes_that_are_worth_considering() -> None:
    times = {Shape(1, 16): 2.0, Shape(4, 16): 5.0, Shape(2, 16): 6.0, Shape(1, 64): 9.0, Shape(4, 64): 8.0}
    again = {shape: time / 2 if shape.batch_size == 1 else time * 2 for shape, time in times.items()}
    models = models_of([WorkerModel(times, again)], [Service()])
    # of 16 tokens: alone, and four; two are slower than four. Of 64: four are quicker than one
    for tokens, sizes, milliseconds in ((1, [1, 4], [2.0, 5.0]), (16, [1, 4], [2.0, 5.0]), (17, [4], [8.0])):
        entries = slice(models.entry_starts[0, tokens], models.entry_starts[0, tokens + 1])
        assert models.sizes[entries].tolist() == sizes
        assert models.times[entries].tolist() == milliseconds
    entries = slice(models.entry_starts[0, 16], models.entry_starts[0, 17])
    assert models.again[entries].tolist() == [1.0, 5.0]  # never more than after another graph
    assert models.graph[entries].tolist() == [0, 1]
    assert models.padded[entries].tolist() == [16, 64]


def test_packers_have_the_lines_of_each_length() -> None:
    packed = {Shape(1, 64, True): 3.0, Shape(4, 64, True): 9.0, Shape(1, 128, True): 5.0}
    models = models_of(
        [WorkerModel({Shape(1, 64): 4.0}, {Shape(1, 64): 4.0}), WorkerModel(packed, packed)], [Service()] * 2
    )
    assert models.packer_starts.tolist() == [0, 0, 2]
    assert models.packed_tokens.tolist() == [64, 128]
    assert models.packed_texts.tolist() == [Shape(1, 64, True).texts_a_line, Shape(1, 128, True).texts_a_line]
    assert models.packed_starts.tolist() == [0, 2, 3]
    assert models.packed_sizes.tolist() == [1, 4, 1]
    assert models.packed_times.tolist() == [3.0, 9.0, 5.0]


def test_workers_take_the_cores_that_are_used_least() -> None:
    assert lay_out([(1, 1, 1)], 2).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert lay_out([(2,), (1, 1)], 3).tolist() == [[1, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert lay_out([(1,), (2,)], 3).tolist() == [[1, 0, 0], [0, 1, 1]]
