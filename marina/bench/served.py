"""A served model as something to measure: where it is, what serves it, and what it is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from handlers.worker.request.schema import Fields
from handlers.worker.tasks import TASKS
from marina.bench.inside import Inside
from marina.bench.load import Load, Target
from marina.bench.measure import WindowReport, measure
from marina.bench.measured import Measured
from marina.bench.texts import Asked
from marina.client import Client
from marina.errors import MarinaError
from marina.project import Project
from marina.server import require_running
from marina.server.management import Management
from marina.server.tokens import token

Protocol = Literal["rest", "grpc"]
DEFAULT_PORTS: dict[Protocol, int] = {"rest": 8080, "grpc": 7070}


class Served(NamedTuple):
    """One model of a running server.

    Attributes:
        target: where requests go.
        configuration: what serves it, as far as the server tells; see `marina.bench.result.Entry`.
        fields: of its task's instances.
        metrics_port: on this machine, or None for a server elsewhere.
    """

    target: Target
    configuration: dict[str, Any]
    fields: Fields
    metrics_port: int | None


def served_here(project: Project, name: str, protocol: Protocol) -> Served:
    """A model of the project's running server; ServerError if none runs or it is not registered."""
    ports = require_running(project).ports
    settings = Management(project.run, ports.management).describe(name)
    own = settings.get("customizedMetadata")
    own = own if isinstance(own, dict) else {}
    key = token(project.run, "inference", ports.management)
    port = ports.inference if protocol == "rest" else ports.grpc_inference
    configuration = {
        "model": name,
        "engine": own.get("engine"),
        "precision": own.get("precision"),
        "shapes": own.get("shapes"),
        "core_groups": own.get("core_groups"),
        "workers": settings["minWorkers"],
        "batch_size": settings["batchSize"],
        "batch_delay_ms": settings["maxBatchDelay"],
        "protocol": protocol,
    }
    fields = TASKS[own["task"]].fields if own.get("task") in TASKS else Fields("text")
    return Served(target_of(name, protocol, "127.0.0.1", port, key), configuration, fields, ports.metrics)


def served_there(url: str, name: str, protocol: Protocol, key: str | None, task: str | None) -> Served:
    """A model of any server, of which nothing is known but where it is.

    Args:
        url: http://HOST:PORT, or HOST:PORT.
        name: the model.
        protocol: "rest" or "grpc".
        key: an inference token, or None.
        task: the model's, where it is known.

    Raises:
        MarinaError: the URL is none, or asks for TLS.
    """
    parts = urlsplit(url if "//" in url else f"//{url}")
    if parts.scheme == "https":
        raise MarinaError(f"{url}: the load generator speaks no TLS; measure behind the proxy, on plain HTTP")
    if not parts.hostname or parts.scheme not in ("http", ""):
        raise MarinaError(f"{url} is not a server; write http://HOST:PORT")
    target = target_of(name, protocol, parts.hostname, parts.port or DEFAULT_PORTS[protocol], key)
    fields = TASKS[task].fields if task in TASKS else Fields("text")
    return Served(target, {"model": name, "protocol": protocol}, fields, None)


def target_of(name: str, protocol: Protocol, host: str, port: int, key: str | None) -> Target:
    """Where TorchServe answers for a model."""
    return Target(protocol, host, port, f"/predictions/{name}", name, key)


def check(served: Served, asked: Asked) -> None:
    """Ask once; MarinaError, with the server's reason, if there is no good answer."""
    target = served.target
    if target.protocol == "grpc":
        if find_spec("grpc") is None or find_spec("google.protobuf") is None:
            raise MarinaError("gRPC needs the packages grpcio and protobuf; install them with pip")
        client = Client.grpc(f"{target.host}:{target.port}", target.token)
    else:
        client = Client.http(f"http://{target.host}:{target.port}", target.token)
    with client:
        client.predict(target.model, json.loads(asked.bodies[0])["inputs"])


def measure_served(served: Served, asked: Asked, load: Load, report: WindowReport = lambda *_: None) -> Measured:
    """Measure a load, with what the server's metrics say of it where they can be read."""
    inside = Inside(served.metrics_port, served.target.model) if served.metrics_port else None
    measured = measure(served.target, asked.bodies, asked.instances, load, report)
    return replace(measured, server=inside.since() if inside else None)


def asked_how(load: Load, asked: Asked) -> dict[str, Any]:
    """The fields of a configuration that say how it was asked."""
    return {
        "connections": load.connections if load.rate is None else None,
        "rate": load.rate,
        "arrivals": load.arrivals if load.rate else None,
        "instances": asked.instances,
        "texts": asked.source,
    }
