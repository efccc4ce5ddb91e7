from typing import Any

from handlers.worker.hosts.torchserve_metrics import Emitter
from handlers.worker.telemetry.metrics import Metrics


class Target:
    def __init__(self) -> None:
        self.values: list[tuple[float, list[str]]] = []

    def add_or_update(self, value: float, labels: list[str]) -> None:
        self.values.append((value, labels))


class Cache:
    def __init__(self, **targets: Target) -> None:
        self.cache = {"counter": targets}


def test_counts_are_handed_over_with_the_models_name_and_only_where_they_are_known() -> None:
    metrics, target = Metrics(), Target()
    emitter = Emitter(metrics, "m", Cache(marina_requests_total=target))
    metrics.add("marina_requests_total", 3, "200")
    metrics.add("marina_rows_total", 3)
    emitter.emit()
    emitter.emit()
    assert target.values == [(3, ["200", "m", "Model"])]


def test_a_server_without_metrics_is_served_all_the_same() -> None:
    metrics: Any = Metrics()
    metrics.add("marina_requests_total", 3, "200")
    Emitter(metrics, "m", None).emit()
