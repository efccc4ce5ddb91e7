"""What the harness mostly measures: a model that TorchServe serves, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import Workload
from marina.bench.report.results import Configuration
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import Protocol, check, measure_endpoint
from marina.bench.sweep.rounds import Measure, Strategy
from marina.spec import Spec

USUAL, MARINA = "the usual handler", "Marina"


def served_strategy(
    server: BenchmarkServer,
    name: str,
    configuration: Configuration,
    archive: Spec | str,
    workloads: Sequence[Workload],
    protocol: Protocol = "rest",
) -> Strategy:
    """A strategy that a benchmark server serves.

    Args:
        server: server to use.
        name: name of the strategy.
        configuration: fields that distinguish it from others.
        archive: a spec to compile and pack, or the name of an archive in the server's model store.
        workloads: workloads to measure.
        protocol: protocol of requests.
    """

    @contextmanager
    def start() -> Iterator[Measure]:
        if isinstance(archive, Spec):
            server.archive(archive)
        endpoint = server.serve(archive.name if isinstance(archive, Spec) else archive, protocol)

        def measure(workload: Workload) -> tuple[Configuration, Measurement]:
            check(endpoint, workload.payload)
            return endpoint.configuration.under(workload), measure_endpoint(endpoint, workload)

        yield measure

    return Strategy(name, configuration, workloads, start, archive if isinstance(archive, Spec) else None)
