from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.rows.plan import Planner
from handlers.worker.telemetry.metrics import COUNTERS, FILL, FILL_BUCKETS, ROW_TOKENS, ROW_TOKENS_BUCKETS, Metrics
from handlers.worker.values import Call, Shape
from tests.handlers.worker.rows.test_plan import Times, plannable


@given(plannable())
def test_tokens_and_padding_are_all_that_is_computed(case: tuple[list[int], Times]) -> None:
    lengths, times = case
    calls = Planner(times).plan(lengths)
    metrics = Metrics()
    metrics.count_calls(calls, lengths, ["m"])
    counts = metrics.take()
    found = [value for (name, _), value in counts.items() if name.endswith("tokens_total")]
    assert sum(found) == sum(call.shape.batch_size * call.shape.sequence_length for call in calls)
    assert counts.get(("marina_tokens_total", ("m",)), 0) == sum(lengths)
    assert counts.get(("marina_rows_total", ("m",)), 0) == len(lengths)
    by_shape = [value for (name, _), value in counts.items() if name == "marina_calls_total"]
    assert sum(by_shape) == len(calls)
    for bound in (*map(str, ROW_TOKENS_BUCKETS), "+Inf"):
        assert counts.get((f"{ROW_TOKENS}_bucket", ("m", bound)), 0) == sum(one <= float(bound) for one in lengths)


@given(st.lists(st.integers(1, 200), min_size=1))
def test_a_histogram_is_cumulative(sizes: list[int]) -> None:
    metrics = Metrics()
    for size in sizes:
        metrics.observe(FILL, size)
    counts = metrics.take()
    for bound in FILL_BUCKETS:
        assert counts.get((f"{FILL}_bucket", (str(bound),)), 0) == sum(size <= bound for size in sizes)
    assert counts[f"{FILL}_bucket", ("+Inf",)] == counts[f"{FILL}_count", ()] == len(sizes)
    assert counts[f"{FILL}_sum", ()] == sum(sizes)


def test_what_is_taken_is_not_counted_again() -> None:
    metrics = Metrics()
    metrics.add("marina_requests_total", 2, "m", "200")
    assert metrics.take() == {("marina_requests_total", ("m", "200")): 2}
    assert metrics.take() == {}


def test_stages_are_counted_by_their_names() -> None:
    metrics = Metrics()
    for name, seconds in (("read", 0.5), ("graph", 2.0), ("graph", 1.0)):
        metrics.add("marina_stage_seconds_total", seconds, name)
    stages = {labels: value for (_, labels), value in metrics.take().items()}
    assert stages == {("read",): 0.5, ("graph",): 3.0}


def test_changes_between_models_are_counted_over_batches() -> None:
    metrics, members = Metrics(), ["a", "b"]
    one, other = (Call(Shape(1, 16), (0,), member=member) for member in (0, 1))
    for calls, switches in (([one, one], 0), ([one, other], 1), ([], 0), ([one, other, one], 3)):
        metrics.count_calls(calls, [3], members)
        assert metrics.take().get(("marina_model_switches_total", ()), 0) == switches


def test_every_counter_says_what_it_counts() -> None:
    for name, metric in COUNTERS.items():
        assert name.startswith("marina_")
        assert metric.meaning.endswith(".")
