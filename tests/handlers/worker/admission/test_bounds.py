"""Which requests of a batch are computed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.admission.backlog import Backlog
from handlers.worker.admission.bounds import Admission
from handlers.worker.admission.costs import Costs
from handlers.worker.admission.pace import STALE_S, Pace
from handlers.worker.tokens.tokenizer import Text, Window
from handlers.worker.values import Instance, Shape

TIMES = {Shape(1, 16): 2.0, Shape(8, 16): 8.0, Shape(1, 64): 5.0, Shape(8, 64): 24.0}
CUT = Window(64, "truncate")
SHORT = Text(Instance("change company address"), CUT)  # one row of 16 tokens: about 1 ms
LONG = Text(Instance("ok " * 1000), CUT)  # one row of 64 tokens: 3 ms, and 1.5 ms for the tokenizer
MS = 4.5  # of LONG
CHEAP, COSTLY = [LONG] * 2, [LONG] * 10  # 9 and 45 ms, where a request is costly above 10 ms
FULL = 4  # requests in a full batch


class Worker:
    """A worker with a limit of 40 ms for costly requests and a deadline of 200 ms: 50 ms for cheap ones."""

    def __init__(self, max_batch_ms: float = 40, deadline_ms: float = 200) -> None:
        self.now = 0.0
        backlog = Backlog(FULL, 100, deadline_ms / 1000, clock=lambda: self.now)
        self.costs = Costs(TIMES)
        self.pace = Pace(lambda: self.now)
        self.pace.observe(1, 1)
        self.admission = Admission([self.costs], max_batch_ms, deadline_ms, 1000, backlog, self.pace)

    def computed(self, *requests: list[Text], took_s: float = 0.01) -> list[bool]:
        """Whether each request of the next batch is computed, which is handed over as soon as the last one ended."""
        with self.admission.batch(len(requests)):
            costs = [self.costs.of_request(request) for request in requests]
            computed = [refusal is None for refusal in self.admission.refusals(costs)]
            self.now += took_s
        return computed


def test_cheap_requests_come_first() -> None:
    assert Worker().computed([LONG] * 6, [SHORT], [LONG] * 5) == [False, True, True]


def test_many_cheap_requests_may_need_a_part_of_the_deadline() -> None:
    assert Worker().computed(CHEAP, CHEAP, CHEAP) == [True] * 3
    assert sum(Worker().computed(*[CHEAP] * 9)) == 5  # 45 of 50 ms


def test_a_single_text_is_cheap_however_slow_the_model_is() -> None:
    assert Worker(max_batch_ms=1).computed([LONG], [LONG], [LONG]) == [True] * 3


def test_one_request_is_computed_whatever_it_costs() -> None:
    assert Worker().computed(COSTLY) == [True]
    assert Worker().computed(COSTLY, COSTLY) == [True, False]


def test_cheap_requests_wait_for_one_costly_request_at_most() -> None:
    worker = Worker()
    assert worker.computed(COSTLY, [SHORT]) == [True, True]
    assert worker.computed(COSTLY, [SHORT]) == [False, True]
    assert worker.computed(COSTLY, [SHORT]) == [True, True]
    assert worker.computed(COSTLY) == [True]
    assert worker.computed(COSTLY) == [True]
    # the same if several are waiting
    worker = Worker()
    assert worker.computed(COSTLY, COSTLY, [SHORT]) == [True, False, True]
    assert worker.computed(COSTLY, COSTLY, [SHORT]) == [False, False, True]
    # beside much cheap work none may exceed the limit
    assert Worker().computed(COSTLY, CHEAP, CHEAP) == [False, True, True]


def test_a_request_beyond_the_deadline_is_refused_for_good() -> None:
    worker = Worker()
    with worker.admission.batch(1):
        (refusal,) = worker.admission.refusals([worker.costs.of_request([LONG] * 50)])
        assert refusal is not None
        assert (refusal.kind, refusal.status) == ("TooMuchWork", 413)


def test_windows_cost_a_row_each() -> None:
    windows = [Text(Instance("ok " * 1000), Window(64, "window"))]  # 12 rows of 3 ms
    assert Worker().computed(windows, windows) == [True, False]
    assert Worker().computed([LONG], [LONG]) == [True, True]


def test_a_queue_of_costly_requests_is_soon_refused() -> None:
    """Full batches, of which only the first has a request computed, until a batch is not full."""
    worker = Worker()
    assert [sum(worker.computed(*[COSTLY] * FULL)) for _ in range(10)] == [1] + [0] * 9
    assert worker.computed(COSTLY, COSTLY) == [False, False]  # the last of the queue
    assert worker.computed(COSTLY, COSTLY) == [True, False]


def test_cheap_requests_are_computed_while_the_queue_is_refused() -> None:
    worker = Worker()
    for _ in range(20):
        worker.computed(*[COSTLY] * FULL)
    assert worker.computed(COSTLY, [SHORT], COSTLY, COSTLY) == [False, True, False, False]


def test_costly_requests_are_not_even_read_while_the_queue_is_refused() -> None:
    worker = Worker()
    with worker.admission.batch(FULL):
        assert worker.admission.refusal_unread(10_000_000) is None
    worker.computed(*[COSTLY] * FULL)
    for _ in range(3):
        with worker.admission.batch(FULL):
            assert worker.admission.refusal_unread(100_000) is not None
            assert worker.admission.refusal_unread(20) is None
            assert worker.admission.refusals([]) == []
    assert worker.computed(COSTLY) == [False]
    with worker.admission.batch(1):
        assert worker.admission.refusal_unread(100_000) is None


def test_a_queue_that_may_be_late_is_refused_unread_although_all_of_it_is_cheap() -> None:
    worker = Worker()
    batch = [[LONG]] * FULL  # 18 ms
    assert worker.computed(*batch, took_s=0.15) == [True] * 4
    # these may have waited for 150 ms, and the deadline is 200 ms
    for requests in (FULL, FULL, 1):
        with worker.admission.batch(requests):
            refusal = worker.admission.refusal_unread(20)
            assert refusal is not None
            assert (refusal.kind, refusal.status) == ("Overloaded", 503)
    # two batches that are not full: the queue is empty
    with worker.admission.batch(1):
        assert worker.admission.refusal_unread(20) is None


def test_costs_follow_the_pace_of_the_calls() -> None:
    for took, computed in ((40, 1), (10, 5), (5, 9)):  # of 50 ms, with 9 ms for each at the times of the start
        worker = Worker()
        for _ in range(60):
            worker.pace.observe(10, took)
        assert sum(worker.computed(*[CHEAP] * 9)) == computed


def test_a_request_beyond_the_deadline_is_tried_if_the_times_may_be_those_of_a_busier_start() -> None:
    long = [LONG] * 50  # 225 ms, and the deadline is 200 ms
    worker = Worker()
    worker.now = STALE_S + 1
    assert worker.computed(long) == [True]
    # it took as long as was estimated
    worker.pace.observe(225, 225)
    assert worker.computed(long) == [False]
    # the host would give up the worker after 1000 ms
    assert Worker(deadline_ms=400).computed([LONG] * 100) == [False]
    for count, tried in ((110, True), (120, False)):
        worker = Worker(deadline_ms=400)
        worker.now = STALE_S + 1
        assert worker.computed([LONG] * count) == [tried]


def test_a_request_that_other_work_makes_slow_is_not_refused_for_good() -> None:
    worker = Worker()
    for _ in range(60):
        worker.pace.observe(10, 20)
    with worker.admission.batch(1):
        assert worker.admission.refusals([150.0]) == [None]  # 300 ms now
    with worker.admission.batch(2):
        kinds = [one and one.kind for one in worker.admission.refusals([150.0, 150.0])]
        assert sorted(map(str, kinds)) == ["None", "Overloaded"]


def test_switching_between_models_leaves_less_for_costly_requests_and_none_starve() -> None:
    worker = Worker()
    with worker.admission.batch(2):
        costs = [worker.costs.of_request(request) for request in (COSTLY, [SHORT])]
        assert [one is None for one in worker.admission.refusals(costs, switch_ms=1000.0)] == [True, True]
    for _ in range(20):  # after an overload too, cheap requests are computed
        with worker.admission.batch(FULL):
            refusals = worker.admission.refusals([*costs[:1] * (FULL - 1), *costs[1:]], switch_ms=1000.0)
            assert refusals[-1] is None


@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=12),
    st.floats(24, 200),
    st.floats(200, 2000),
)
def test_the_work_of_any_sequence_of_batches_is_bounded(
    batches: list[list[int]], max_batch_ms: float, deadline_ms: float
) -> None:
    worker, refused_before = Worker(max_batch_ms, deadline_ms), False
    for sizes in batches:
        taken = worker.computed(*[[LONG] * size for size in sizes])
        costs = sorted((size * MS for size, own in zip(sizes, taken, strict=True) if own), reverse=True)
        assert sum(costs) <= max(max_batch_ms, deadline_ms / 4, max_batch_ms / 4 + (costs or [0])[0]) + 1e-6
        assert any(taken) or refused_before
        # a request is never computed instead of a cheaper one
        pairs = [(i, j) for i in range(len(sizes)) for j in range(len(sizes)) if sizes[i] < sizes[j]]
        assert all(taken[i] or not taken[j] for i, j in pairs)
        refused_before = len(sizes) >= FULL and not all(taken)
