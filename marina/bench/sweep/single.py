"""Measures one load on a served model, or the graphs of a model without a server."""

from __future__ import annotations

from handlers.worker.archive.artifact import read_artifact
from marina.bench.load.measurement import MeasuredWindow
from marina.bench.load.payload import MIX, LoadCase, payload_for, read_instances, read_payload, texts_of
from marina.bench.load.profile import Load
from marina.bench.report.results import Configuration, Entry
from marina.bench.server.bare_graphs import bare_graphs
from marina.bench.server.endpoint import Endpoint, Protocol, check, local_endpoint, measure_endpoint, remote_endpoint
from marina.compiler import compile_model
from marina.console import Progress
from marina.project import Project
from marina.shapes.auto import with_shapes
from marina.spec import Spec, read_spec


def find_endpoint(project: Project, name: str, url: str | None, token: str | None, protocol: Protocol) -> Endpoint:
    """A model of the project's server, or of the server at a URL."""
    if url is None:
        return local_endpoint(project, name, protocol)
    path = project.models / f"{name.rpartition(':')[2]}.yaml"
    return remote_endpoint(url, name, protocol, token, read_spec(path).task if path.exists() else None)


def measure_load(
    project: Project, endpoint: Endpoint, texts: str | None, instances: int, load: Load, progress: Progress
) -> Entry:
    """Measure one load; raises the errors of `read_payload`, `check` and `measure`.

    Args:
        project: project with the spec that names the texts if `texts` is None.
        endpoint: model to measure.
        texts: source of the texts in the format of `read_payload`, or None.
        instances: instances per request.
        load: how requests are sent.
        progress: called with the figures of each window.
    """
    path = project.models / f"{endpoint.member or endpoint.target.model}.yaml"
    source = texts or (texts_of(read_spec(path), project) if path.exists() else MIX)
    payload = read_payload(source, endpoint.fields, instances)
    workload = LoadCase(load, payload_for(endpoint.member, payload) if endpoint.member else payload)
    check(endpoint, workload.payload)
    progress("warming up", 0, load.max_windows)

    def report(window: MeasuredWindow, done: int, max_windows: int) -> None:
        latency = "no answer" if window.p99_ms is None else f"p99 {window.p99_ms:.1f} ms"
        progress(f"{window.throughput:.0f} instances/s, {latency}", done, max_windows)

    return Entry(endpoint.configuration.with_load_of(workload), [measure_endpoint(endpoint, workload, report)])


def measure_bare(project: Project, spec: Spec, texts: str | None, seconds: float, progress: Progress) -> Entry:
    """Run a model's graphs without a server; compiles them first if necessary."""
    spec = with_shapes(spec, project, progress)
    artifact = compile_model(spec, project, progress).folder
    progress("running the graphs", 0, 1)
    with bare_graphs(spec, artifact, read_instances(texts or texts_of(spec, project), spec.instance_fields)) as bare:
        measurement = bare.run(seconds).measurement(seconds)
    described = read_artifact(artifact)
    configuration = Configuration(
        model=spec.name,
        engine=described.engine,
        precision=described.precision,
        shapes=tuple(map(str, described.shapes)),
        core_groups=spec.core_groups,
        workers=spec.workers,
        protocol="none: bare graphs",
    )
    return Entry(configuration, [measurement])
