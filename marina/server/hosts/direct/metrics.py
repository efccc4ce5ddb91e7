"""The counters of workers and queues, as a page for Prometheus with the names that TorchServe's page has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from handlers.worker.telemetry.metrics import COUNTERS

Labels = tuple[tuple[str, str], ...]
HOST_METRICS = {
    "ts_inference_requests_total": "Requests that the queues have accepted and that are answered.",
    "ts_inference_latency_microseconds": "Microseconds from a request's arrival to its answer, summed.",
    "ts_queue_latency_microseconds": "Microseconds that requests have waited in queues, summed.",
}
STATUSES = {number: f"Requests{number}XX" for number in (2, 4, 5)}


@dataclass
class Traffic:
    """What has gone through the queue of a version: requests, and their seconds until the answer and in the queue."""

    requests: int = 0
    seconds: float = 0.0
    waited_seconds: float = 0.0


class Counts:
    """The counters of all models since the start."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], float] = defaultdict(float)
        self._statuses = dict.fromkeys(STATUSES, 0)

    def answered(self, status: int) -> None:
        """A request has been answered with a status of HTTP."""
        if status // 100 in self._statuses:
            self._statuses[status // 100] += 1

    def add(self, model: str, counts: Iterable[Sequence[Any]]) -> None:
        """Add counts of a model's worker: names, values of the labels, and values."""
        for name, values, value in counts:
            if name not in COUNTERS or len(values) != len(COUNTERS[name].labels):
                continue  # of another release
            labels = zip(COUNTERS[name].labels, values, strict=True)
            self._values[name, (*labels, ("ModelName", model), ("Level", "Model"))] += value

    def page(self, traffic: Iterable[tuple[str, str, Traffic]]) -> str:
        """The page, with the traffic of each model and version."""
        values = dict(self._values)
        for model, version, flow in traffic:
            labels: Labels = (("model_name", model), ("model_version", version))
            numbers = (flow.requests, round(flow.seconds * 1e6), round(flow.waited_seconds * 1e6))
            values.update({(name, labels): value for name, value in zip(HOST_METRICS, numbers, strict=True)})
        values.update({(STATUSES[number], (("Level", "Host"),)): count for number, count in self._statuses.items()})
        meanings = {
            **{name: f"Answers with status {name[8:]}, without those to GET." for name in STATUSES.values()},
            **HOST_METRICS,
            **{name: metric.meaning for name, metric in COUNTERS.items()},
        }
        samples = defaultdict(list)
        for (name, labels), value in values.items():
            samples[name].append((labels, value))
        lines = []
        for name in [name for name in meanings if name in samples]:
            lines += [f"# HELP {name} {meanings[name]}", f"# TYPE {name} counter"]
            for labels, value in samples[name]:
                text = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels)
                lines.append(f"{name}{{{text}}} {value:.10g}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
