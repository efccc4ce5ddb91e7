"""The compiled planner against the workers' own."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handlers.worker.rows.plan import MANY_ROWS, Planner
from handlers.worker.values import Shape
from marina.plan.simulator.calls import plan_calls
from marina.plan.simulator.system import Service, WorkerModel, models_of

LONGEST = 64
SHAPES = st.builds(Shape, st.integers(1, 8), st.integers(1, LONGEST), st.just(False)) | st.builds(
    Shape, st.integers(1, 4), st.sampled_from([16, 32, LONGEST]), st.just(True)
)
TIMES = st.dictionaries(SHAPES, st.floats(0.1, 50), min_size=1, max_size=8)


# more texts than a line may hold
@example({Shape(1, 16, True): 0.5, Shape(4, LONGEST, True): 2.0}, 50.0, [1] * 40)
@example({Shape(1, LONGEST, True): 0.5}, 50.0, [3, 2, 1] * 30)
@settings(max_examples=200, deadline=None)
@given(TIMES, st.floats(0.1, 50), st.lists(st.integers(1, LONGEST), min_size=1, max_size=40))
def test_batches_take_the_time_of_the_workers_plans(times: dict[Shape, float], most: float, lengths: list[int]) -> None:
    times = {**times, Shape(1, LONGEST): most}
    calls = Planner(times).plan(lengths)
    models = models_of([WorkerModel(times, times)], [Service()])
    room = len(lengths) + 1
    found = plan_calls(np.array(lengths), len(lengths), 0, models, np.zeros(room), np.zeros(room, np.int64))
    assert abs(found[0] - sum(times[call.shape] for call in calls)) < 1e-6
    assert found[1] == sum(call.shape.batch_size * call.shape.sequence_length for call in calls)


@settings(max_examples=40, deadline=None)
@given(TIMES, st.lists(st.integers(1, LONGEST), min_size=MANY_ROWS, max_size=2 * MANY_ROWS))
def test_workers_plan_many_rows_at_least_as_well(times: dict[Shape, float], lengths: list[int]) -> None:
    times = {**times, Shape(1, LONGEST): 50.0}
    models = models_of([WorkerModel(times, times)], [Service()])
    room = len(lengths) + 1
    predicted, _ = plan_calls(np.array(lengths), len(lengths), 0, models, np.zeros(room), np.zeros(room, np.int64))
    assert sum(times[call.shape] for call in Planner(times).plan(lengths)) <= predicted + 1e-6


def test_a_call_after_one_of_the_same_graph_is_quicker() -> None:
    shape = Shape(2, 16)
    models = models_of([WorkerModel({shape: 4.0}, {shape: 3.0})], [Service()])
    found = plan_calls(np.full(6, 10), 6, 0, models, np.zeros(7), np.zeros(7, np.int64))
    assert found == (4.0 + 3.0 + 3.0, 96)
