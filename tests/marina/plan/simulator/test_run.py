"""The simulator against queueing theory, and against every rule that it claims."""

from __future__ import annotations

import numpy as np
import pytest

from marina.plan.simulator.batches import NO_DELAY
from marina.plan.simulator.system import Service
from marina.plan.simulator.values import ANSWERED, LOST, QUEUE_FULL
from tests.marina.plan.simulator.systems import at_times, poisson, run, service_of

MS = 5.0


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_waiting_is_that_of_the_md1_queue(load: float) -> None:
    found = run(poisson(1000 / MS * load, 300_000), [service_of(MS)], [Service()])
    wait = found.latency.mean() - MS
    # Pollaczek and Khinchine, for service times that are all alike
    assert wait == pytest.approx(load * MS / (2 * (1 - load)), rel=0.05)
    # the utilisation law: throughput times service time
    assert found.busy.sum() / found.end == pytest.approx(load, rel=0.02)


def test_littles_law_holds() -> None:
    found = run(poisson(150, 50_000), [service_of(MS)], [Service(batch_size=8)])
    times = np.concatenate([found.sent, found.sent + found.latency])
    steps = np.concatenate([np.ones(len(found.sent)), -np.ones(len(found.sent))])
    order = np.argsort(times)
    under_way = np.cumsum(steps[order])[:-1]
    mean = (under_way * np.diff(times[order])).sum() / found.end
    assert mean == pytest.approx(len(found.sent) / found.end * found.latency.mean(), rel=0.01)


def test_a_closed_loop_keeps_a_worker_busy() -> None:
    found = run(at_times(np.zeros(2000), connections=7), [service_of(MS)], [Service()])
    assert 2000 / found.end * 1000 == pytest.approx(1000 / MS, rel=0.01)
    assert np.median(found.latency) == pytest.approx(7 * MS, rel=0.01)


def test_a_request_alone_waits_for_the_whole_delay() -> None:
    (latency,) = run(at_times([100.2]), [service_of(MS)], [Service(batch_size=8, delay_ms=3)]).latency
    assert latency == pytest.approx(3 + MS)
    (latency,) = run(at_times([100.2]), [service_of(MS)], [Service(batch_size=1, delay_ms=3)]).latency
    assert latency == pytest.approx(MS)


def test_the_delay_counts_ticks_of_the_clock() -> None:
    service, graph = [Service(batch_size=8, delay_ms=1)], [service_of(MS)]
    # no tick between them: the second one starts the wait anew
    assert run(at_times([0.1, 0.9]), graph, service).batches.tolist() == [1]
    assert run(at_times([0.1, 0.9]), graph, service).latency[0] == pytest.approx(0.8 + 1 + 2 * MS)
    # a tick: the batch is ready with the second one
    assert run(at_times([0.9, 1.1]), graph, service).latency[0] == pytest.approx(0.2 + 2 * MS)
    # too late for the batch
    assert run(at_times([0.1, 1.2]), graph, service).batches.tolist() == [2]


def test_what_waits_is_taken_at_once_up_to_the_batch_size() -> None:
    found = run(at_times([0.5, *np.full(10, 3.0)]), [service_of(MS)], [Service(batch_size=4, delay_ms=1)])
    # the first one alone, then batches of 4, 4 and 2
    assert (found.batches.tolist(), found.batched.tolist()) == ([4], [11])


def test_only_one_idle_worker_forms_a_batch() -> None:
    service = [Service(groups=(1, 1), batch_size=4, delay_ms=1)]
    found = run(at_times([10.1, 10.2]), [service_of(MS)], service, cores=2)
    assert found.batches.tolist() == [1]  # the second worker would have been free


def test_without_a_delay_what_waits_is_taken_at_once() -> None:
    service = [Service(batch_size=4, delay_ms=NO_DELAY)]
    found = run(at_times([0.5, *np.full(6, 3.0)]), [service_of(MS)], service)
    # the first one alone, then batches of 4 and 2
    assert (found.batches.tolist(), found.batched.tolist()) == ([3], [7])
    assert found.latency.tolist() == pytest.approx([MS, *[2.5 + 4 * MS] * 4, *[2.5 + 6 * MS] * 2])


def test_without_a_delay_every_idle_worker_takes_requests() -> None:
    service = [Service(groups=(1, 1), batch_size=8, delay_ms=NO_DELAY)]
    found = run(at_times([3.0, 3.0, *np.full(5, 4.0)]), [service_of(MS)], service, cores=2)
    # each takes one; the first that ends takes all that wait
    assert (found.batches.tolist(), found.batched.tolist()) == ([3], [7])
    assert found.latency.tolist() == pytest.approx([MS, MS, *[MS - 1 + 5 * MS] * 5])


def test_a_full_queue_refuses() -> None:
    found = run(at_times(np.zeros(10)), [service_of(MS)], [Service(queue=3)])
    # one is computed, three wait
    assert np.bincount(found.status).tolist() == [4, 6]
    assert found.status[-1] == QUEUE_FULL


def test_workers_that_share_a_core_take_turns() -> None:
    both = [service_of(MS), service_of(MS)]
    apart = run(at_times([0.0, 0.0], models=2), both, [Service(), Service()], cores=2)
    assert apart.latency.tolist() == pytest.approx([MS, MS])
    shared = run(at_times([0.0, 0.0], models=2), both, [Service(), Service()], cores=1)
    assert shared.latency.tolist() == pytest.approx([2 * MS, 2 * MS])
    slower = run(at_times([0.0, 0.0], models=2), both, [Service(), Service()], cores=2, contention=0.5)
    assert slower.latency.tolist() == pytest.approx([1.5 * MS, 1.5 * MS])


@pytest.mark.parametrize(("used", "times"), [(1.0, 2.0), (0.8, 1.6), (0.4, 1.0)])
def test_workers_use_what_others_leave_idle_of_shared_cores(used: float, times: float) -> None:
    both = [service_of(MS), service_of(MS)]
    services = [Service(groups=(2,)), Service(groups=(2,))]
    found = run(at_times([0.0, 0.0], models=2), both, services, cores=2, core_usage=[used, used])
    assert found.latency.tolist() == pytest.approx([times * MS, times * MS])
    alone = run(at_times([0.0, 100.0], models=2), both, services, cores=2, core_usage=[used, used])
    assert alone.latency.tolist() == pytest.approx([MS, MS])


def test_the_front_delays_batches_only_if_no_core_is_free() -> None:
    costs = [service_of(MS, front=2.0)]
    # the second request comes while the first is computed; half of its time is for its arrival
    busy = run(at_times([0.0, 1.0]), costs, [Service()], cores=1, stolen=1.0)
    assert busy.latency[0] == pytest.approx(MS + 1.0 + 1.0)  # and what was left of its own
    free = run(at_times([0.0, 1.0]), costs, [Service()], cores=2, stolen=1.0)
    assert free.latency[0] == pytest.approx(MS)


def test_requests_of_a_moment_enter_one_after_the_other() -> None:
    found = run(at_times(np.zeros(3)), [service_of(MS)], [Service(batch_size=3, delay_ms=5)], entering=1.5)
    assert found.latency.tolist() == pytest.approx([3 + 3 * MS] * 3)


def test_answers_leave_one_after_the_other() -> None:
    costs = [service_of(MS, replying=0.5, outside=2.0)]
    found = run(at_times(np.zeros(2)), costs, [Service(batch_size=2)])
    assert found.latency.tolist() == pytest.approx([2 * MS + 2, 2 * MS + 2.5])


def test_pauses_make_answers_late() -> None:
    costs = [service_of(MS, idle=(1.0,))]
    found = run(at_times([0.0, 1.0, 100.0]), costs, [Service()])
    # the second one finds the worker busy
    assert found.latency.tolist() == pytest.approx([MS + 1, 2 * MS - 1, MS + 1])


def test_an_instance_is_lost_with_its_requests() -> None:
    at = np.arange(100) * 2.0
    found = run(
        at_times(at),
        [service_of(MS)],
        [Service()],
        count=2,
        down=np.array([51.0, np.inf]),
        up=np.array([120.0, np.inf]),
        lost=np.array([1, 0]),
    )
    lost = found.sent[found.status == LOST]
    assert 0 < len(lost) < 15
    assert lost.max() <= 51
    assert (found.status == ANSWERED).sum() == 100 - len(lost)


def test_an_upgrade_loses_nothing() -> None:
    down, up = np.array([51.0, 101.0]), np.array([100.0, 150.0])
    found = run(at_times(np.arange(100) * 6.0), [service_of(MS)], [Service()], count=2, down=down, up=up)
    assert (found.status == ANSWERED).all()


def test_the_fewest_requests_are_better_than_chance() -> None:
    requests = poisson(10 * 1000 / MS * 0.8, 50_000)
    chance, least = (
        run(requests, [service_of(MS)], [Service()], count=10, least_loaded=least).latency.mean()
        for least in (False, True)
    )
    assert least < chance / 2


def test_instances_behind_chance_are_like_one_with_its_share() -> None:
    together = run(poisson(10 * 1000 / MS * 0.7, 200_000), [service_of(MS)], [Service()], count=10)
    alone = run(poisson(1000 / MS * 0.7, 100_000, seed=5), [service_of(MS)], [Service()])
    assert np.percentile(together.latency, 99) == pytest.approx(np.percentile(alone.latency, 99), rel=0.06)


def test_the_same_seed_gives_the_same_outcome() -> None:
    costs = [service_of(MS, spread=(0.8, 1.0, 1.3), idle=(0.0, 2.0))]
    one, same, other = (run(poisson(100, 2000), costs, [Service()], seed=seed).latency for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
