from pathlib import Path

from benchmarks.scorer_load import scorer_load
from marina.bench.load.profile import Load
from tests.marina.score.archives import project_with


def test_latencies_count_from_when_a_row_was_due(tmp_path: Path) -> None:
    project = project_with(tmp_path, "intent")
    rows = [{"text": "change company address"}, {"text": "hello"}]
    with scorer_load(project.model_store / "intent.mar", rows) as run:
        slow = run(Load(rate=20.0, warm_up_s=0.2, seconds=1.0))
        assert slow.seconds >= 1.0
        assert 5 <= slow.requests <= 40
        # far more than it can answer: what is due waits, and the rate is that of the answers
        fast = run(Load(rate=100_000.0, warm_up_s=0.0, seconds=0.02))
    assert fast.throughput < 50_000
    assert fast.latency_ms["max"] > 20 * slow.latency_ms["p50"]
