"""A served model to be measured: its address, its known configuration, and how it is measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from handlers.worker.engines.packages import installed
from handlers.worker.request.schema import Fields, required_fields
from handlers.worker.tasks import TASKS
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Target
from marina.bench.load.runner import WindowReport, measure
from marina.bench.report.results import Configuration
from marina.bench.server.server_metrics import MetricsReader
from marina.client import Client
from marina.errors import MarinaError
from marina.project import Project
from marina.server.management.api import Management
from marina.server.models import require_running
from marina.server.run.tokens import token

Protocol = Literal["rest", "grpc"]
DEFAULT_PORTS: dict[Protocol, int] = {"rest": 8080, "grpc": 7070}


class Endpoint(NamedTuple):
    """One model of a running server.

    Attributes:
        target: where requests go.
        configuration: configuration of the model and its server, as far as the server reports it.
        fields: fields of its task's instances.
        metrics_port: metrics port of TorchServe on this machine, or None if its metrics cannot be read.
        member: name of the model in a bundle, for requests; "" if the archive is no bundle.
    """

    target: Target
    configuration: Configuration
    fields: Fields = Fields("text")
    metrics_port: int | None = None
    member: str = ""


def local_endpoint(project: Project, name: str, protocol: Protocol) -> Endpoint:
    """A model of the project's running server; ServerError if none is running or the model is not registered.

    A model of a bundle is named BUNDLE:MODEL; of the bundle itself, only the configuration of the worker is known.
    """
    ports = require_running(project).ports
    archive, _, member = name.partition(":")
    settings = Management(project.run, ports.management).describe(archive)
    metadata = settings.get("customizedMetadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    metadata |= metadata.get("members", {}).get(member, {})
    key = token(project.run, "inference", ports.management)
    port = ports.inference if protocol == "rest" else ports.grpc_inference
    configuration = Configuration(
        model=name,
        engine=metadata.get("engine"),
        precision=metadata.get("precision"),
        shapes=tuple(metadata["shapes"]) if metadata.get("shapes") else None,
        core_groups=metadata.get("core_groups"),
        workers=settings["minWorkers"],
        batch_size=settings["batchSize"],
        batch_delay_ms=settings["maxBatchDelay"],
        protocol=protocol,
    )
    target = target_of(archive, protocol, "127.0.0.1", port, key)
    return Endpoint(
        target, configuration, _fields_of(metadata.get("task"), metadata.get("fields", ())), ports.metrics, member
    )


def remote_endpoint(url: str, name: str, protocol: Protocol, key: str | None, task: str | None) -> Endpoint:
    """A model of any server; only the server's address is known.

    Args:
        url: http://HOST:PORT, or HOST:PORT.
        name: name of the model.
        protocol: "rest" or "grpc".
        key: an inference token, or None.
        task: task of the model, if known.

    Raises:
        MarinaError: the URL is invalid, or uses TLS.
    """
    not_a_server = MarinaError(f"{url} is not a server; write http://HOST:PORT")
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        port = parts.port
    except ValueError:
        raise not_a_server from None
    if parts.scheme == "https":
        raise MarinaError(f"{url}: the load generator speaks no TLS; measure behind the proxy, on plain HTTP")
    if not parts.hostname or parts.scheme not in ("http", "") or parts.path not in ("/", "") or parts.query:
        raise not_a_server
    archive, _, member = name.partition(":")
    target = target_of(archive, protocol, parts.hostname, port or DEFAULT_PORTS[protocol], key)
    return Endpoint(target, Configuration(model=name, protocol=protocol), _fields_of(task), member=member)


def target_of(name: str, protocol: Protocol, host: str, port: int, key: str | None) -> Target:
    """The target for a model that TorchServe serves."""
    return Target(protocol, host, port, (f"/predictions/{name}",), name, key)


def check(endpoint: Endpoint, payload: Payload) -> None:
    """Send one request; MarinaError with the server's reason if it fails."""
    target = endpoint.target
    if target.protocol == "grpc":
        if not (installed("grpcio") and installed("protobuf")):
            raise MarinaError("gRPC needs the packages grpcio and protobuf; install them with pip")
        client = Client.grpc(target.address, target.token)
    else:
        client = Client.http(f"http://{target.address}", target.token)
    with client:
        model = f"{target.model}:{endpoint.member}" if endpoint.member else target.model
        client.predict(model, json.loads(payload.bodies[0])["inputs"])


def measure_endpoint(endpoint: Endpoint, workload: LoadCase, report: WindowReport = lambda *_: None) -> Measurement:
    """Measure a workload, including the server's metrics if they can be read."""
    load, payload = workload
    metrics = MetricsReader(endpoint.metrics_port, endpoint.target.model) if endpoint.metrics_port else None
    measurement = measure(endpoint.target, payload.bodies, payload.instances, load, report)
    return replace(measurement, server=metrics.since_start() if metrics else None)


def _fields_of(task: str | None, names: Sequence[str] = ()) -> Fields:
    """The fields of a task, or the fields of a model with a preprocessing module."""
    task_fields = TASKS[task].fields if task in TASKS else Fields("text")
    return task_fields if not names or tuple(names) == task_fields.names else required_fields(names)
