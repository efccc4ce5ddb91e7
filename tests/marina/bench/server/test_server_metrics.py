import pytest

from marina.bench.load.measurement import ServerMetrics
from marina.bench.server.server_metrics import counters, summary

PAGE = """# HELP marina_stage_seconds_total Torchserve prometheus counter metric
# TYPE marina_stage_seconds_total counter
marina_stage_seconds_total{stage="graph",ModelName="a",Level="Model",Hostname="h",} 3.0
marina_stage_seconds_total{stage="tokenize",ModelName="a",Level="Model",Hostname="h",} 1.0
marina_stage_seconds_total{stage="graph",ModelName="b",Level="Model",Hostname="h",} 99.0
# TYPE marina_request_seconds_sum counter
marina_request_seconds_sum{ModelName="a",Level="Model",Hostname="h",} 4.0
# TYPE marina_request_seconds_count counter
marina_request_seconds_count{ModelName="a",Level="Model",Hostname="h",} 200.0
# TYPE marina_batch_requests_sum counter
marina_batch_requests_sum{ModelName="a",Level="Model",Hostname="h",} 200.0
# TYPE marina_batch_requests_count counter
marina_batch_requests_count{ModelName="a",Level="Model",Hostname="h",} 50.0
# TYPE marina_tokens_total counter
marina_tokens_total{ModelName="a",Level="Model",Hostname="h",} 700.0
# TYPE marina_padding_tokens_total counter
marina_padding_tokens_total{kind="length",ModelName="a",Level="Model",Hostname="h",} 200.0
marina_padding_tokens_total{kind="empty",ModelName="a",Level="Model",Hostname="h",} 100.0
# TYPE marina_calls_total counter
marina_calls_total{shape="1x16",ModelName="a",Level="Model",Hostname="h",} 60.0
# TYPE marina_rows_total counter
marina_rows_total{ModelName="a",Level="Model",Hostname="h",} 60.0
# TYPE marina_repeated_rows_total counter
marina_repeated_rows_total{ModelName="a",Level="Model",Hostname="h",} 20.0
# TYPE ts_inference_requests_total counter
ts_inference_requests_total{model_name="a",model_version="default",hostname="h",} 200.0
# TYPE ts_queue_latency_microseconds counter
ts_queue_latency_microseconds{model_name="a",model_version="default",hostname="h",} 600000.0
"""


def test_the_page_says_where_requests_spent_their_time() -> None:
    assert summary(counters(PAGE, "a")) == ServerMetrics(
        queue_ms=3.0,
        worker_ms=20.0,
        stage_share={"graph": 0.75, "tokenize": 0.25},
        batch=4.0,
        length_padding=0.2,
        empty_padding=0.1,
        calls={"1x16": 60},
        repeated=0.25,
    )


@pytest.mark.parametrize("model", ["b", "nobody"])
def test_a_worker_that_does_not_count_has_no_summary(model: str) -> None:
    assert summary(counters(PAGE, model)) is None
