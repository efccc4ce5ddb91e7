"""The usual strategies: a model that TorchServe serves, one at a time, and its graphs without a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.report.results import Configuration
from marina.bench.server.bare_graphs import BareGraphs
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
    workloads: Sequence[LoadCase],
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

        def measure(workload: LoadCase) -> tuple[Configuration, Measurement]:
            check(endpoint, workload.payload)
            return endpoint.configuration.with_load_of(workload), measure_endpoint(endpoint, workload)

        yield measure

    return Strategy(name, configuration, workloads, start, archive if isinstance(archive, Spec) else None)


def bare_strategy(
    graphs: BareGraphs,
    name: str,
    configuration: Configuration,
    seconds: float,
    paced_ms: list[float],
    megabytes: dict[str, float],
) -> Strategy:
    """A strategy that runs graphs without a server.

    Args:
        graphs: the loaded graphs.
        name: name of the strategy that serves them.
        configuration: fields that distinguish it from others.
        seconds: length of a round.
        paced_ms: gets, from each round, the median latency of single texts after pauses.
        megabytes: gets the resident memory of the graphs, by this strategy's name.
    """
    bare_name = f"{name}, bare"

    def measure(_: LoadCase) -> tuple[Configuration, Measurement]:
        result = graphs.run(seconds)
        paced_ms.append(result.paced_ms)
        megabytes[bare_name] = result.megabytes
        return Configuration(), result.measurement(seconds)

    single_text = LoadCase(Load(1, seconds=seconds), Payload([], 1, MIX_NAME))
    return Strategy(bare_name, configuration, [single_text], lambda: nullcontext(measure))


def with_memory_recorded(strategy: Strategy, server: BenchmarkServer, megabytes: dict[str, float]) -> Strategy:
    """The same strategy, which also records the resident memory of a worker after each round, by its name."""

    @contextmanager
    def start() -> Iterator[Measure]:
        with strategy.start() as measure:
            yield measure
            megabytes[strategy.name] = server.resident_megabytes()

    return replace(strategy, start=start)
