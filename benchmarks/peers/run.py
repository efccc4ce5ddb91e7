"""Measures the peers, the usual TorchServe handler and Marina in interleaved rounds, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.process import install, running
from benchmarks.peers.settings import Peer, peers
from benchmarks.usual.pack import pack_usual
from handlers.worker.placement.discovery import cpu_cores
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of
from marina.bench.load.profile import Load
from marina.bench.report.results import Configuration, Result
from marina.bench.server.benchmark_server import BenchmarkServer, benchmark_server
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.sweep.strategies import MARINA, USUAL, served_strategy
from marina.compiler.hugging_face import find_source
from marina.console import Progress
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import make_spec, read_spec

KIND = "peers"
MODELS = {"text-classification": "ava-intent", "sentence-embedding": "resume-search"}
CONNECTIONS = (1, 32)
ROUNDS, SECONDS = 3, 5.0
USUAL_TOKENS, USUAL_BATCH = 128, 6


def measure_peers(project: Project, progress: Progress) -> Result:
    """Install and measure the peers; `more` lists the failures, and quotes of the peers' documentation.

    Raises:
        MarinaError: a peer cannot be installed, or a demonstration model is missing.
    """
    cores = len(cpu_cores())
    folder = project.root / "build" / "bench" / KIND
    all_peers = peers(cores)
    packages = sorted({peer.packages for peer in all_peers})
    for index, name in enumerate(packages):
        progress(f"installing {name}", index, len(packages))
        install(name, folder)
    with benchmark_server(project, progress) as server:
        specs = {task: read_spec(project.models / f"{name}.yaml") for task, name in MODELS.items()}
        sources = {task: find_source(spec.source, project.root) for task, spec in specs.items()}
        work = server.project.root / "usual"
        source = sources["text-classification"]
        pack_usual(source, "usual", server.project.model_store, work, USUAL_TOKENS, USUAL_BATCH)
        strategies = [_peer_strategy(peer, sources[peer.task], folder, cores) for peer in all_peers]
        strategies += _torchserve_strategies(server, project, cores)
        entries, failures = measure_rounds(strategies, ROUNDS, progress, leave_out_failures=True)
    if not entries:
        raise MarinaError(f"no peer could be measured; {failures[0]}")
    entries.sort(key=lambda entry: entry.configuration.connections or 0)
    quotes = list(dict.fromkeys(f"{peer.name}: {peer.quote}" for peer in all_peers))
    more = {"failures": failures, "quotes": quotes}
    baseline = Configuration(strategy=USUAL)
    return Result(KIND, "Marina and other servers, one text per request", entries, baseline=baseline, more=more)


def _workloads(bodies: list[bytes]) -> list[LoadCase]:
    payload = Payload(bodies, 1, MIX_NAME)
    return [LoadCase(Load(connections=count, window_s=SECONDS, seconds=SECONDS), payload) for count in CONNECTIONS]


def _peer_strategy(peer: Peer, source: Path, folder: Path, cores: int) -> Strategy:
    @contextmanager
    def start() -> Iterator[Measure]:
        with running(peer, source, folder, cores) as target:
            endpoint = Endpoint(target, Configuration(protocol="rest", workers=peer.workers))

            def measure(workload: LoadCase) -> tuple[Configuration, Measurement]:
                return endpoint.configuration.with_load_of(workload), measure_endpoint(endpoint, workload)

            yield measure

    configuration = Configuration(model=MODELS[peer.task], strategy=peer.name)
    return Strategy(f"{peer.name}, {peer.task}", configuration, _workloads(peer.bodies(mixed_texts())), start)


def _torchserve_strategies(server: BenchmarkServer, project: Project, cores: int) -> list[Strategy]:
    """The usual TorchServe handler, and Marina in several settings."""
    workloads = _workloads(bodies_of(list(mixed_texts()), 1))
    usual = Configuration(model=MODELS["text-classification"], strategy=USUAL)
    strategies = [served_strategy(server, USUAL, usual, "usual", workloads)]
    groups = ",".join(["1"] * cores)
    for model in MODELS.values():
        base = read_spec(project.models / f"{model}.yaml").model_dump(exclude_defaults=True)
        for precision, core_groups, workers in (
            ("f32", groups, f"{cores} workers"),
            ("auto", groups, f"{cores} workers"),
            ("auto", None, "1 worker"),
        ):
            spec = make_spec({**base, "precision": precision, "core_groups": core_groups})
            name = f"{MARINA} {precision}, {workers}"
            row = Configuration(model=model, strategy=name)
            strategies.append(served_strategy(server, f"{name}, {model}", row, spec, workloads))
    return strategies
