"""The Ray Serve host: the only file that knows Ray Serve. `marina deploy ray` writes the files that start it.

Each model is an application with one deployment, whose replicas have a core group each and answer /predictions/NAME.
One more application has all other URLs, and passes requests on to the models.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from handlers.worker.answering.model import Model
from handlers.worker.answering.reply import Reply, error_reply
from handlers.worker.archive.artifact import ARTIFACT_FOLDER, CONFIG_FILE, MANIFEST, sha256_of
from handlers.worker.archive.contents import read_contents
from handlers.worker.archive.unpack import private_folder, unpack
from handlers.worker.engines import engine_module
from handlers.worker.errors import PlacementError, RequestError, WorkerError
from handlers.worker.hosts.batches import Batches
from handlers.worker.hosts.urls import BODY_BYTES, Urls, read_tokens, refusal, unknown_version
from handlers.worker.placement.groups import parse_core_groups
from handlers.worker.settings import read_settings
from handlers.worker.tasks import TASKS
from handlers.worker.telemetry.metrics import COUNTERS, READY_SECONDS, WORKER_STARTS
from handlers.worker.values import Json

ARCHIVES = "MARINA_ARCHIVES"  # the folder of archives on every node; by default "archives" in the working folder
NEURON_CORES = "neuron_cores"  # Ray's name of NeuronCores
MAX_TRIES = 3
MAX_LOADED_VERSIONS = 4
READY_S = 2.0
EMIT_S = 1.0


class UnpackedArchive(NamedTuple):
    """An unpacked archive: its folder, its model-config.yaml, and its version."""

    folder: Path
    config: dict[str, Any]
    version: str


def open_archive(path: Path) -> UnpackedArchive:
    """Unpack an archive on this node, once for all its replicas."""
    folder = private_folder("marina-ray") / f"{path.stem}-{sha256_of(path)[:12]}"
    unpack(path, folder)
    version = json.loads((folder / MANIFEST).read_text())["model"]["modelVersion"]
    return UnpackedArchive(folder, yaml.safe_load((folder / CONFIG_FILE).read_text()), str(version))


def archive_path(name: str) -> Path:
    """The path of an archive on this node."""
    return Path(os.environ.get(ARCHIVES, "archives")) / name


class Remote:
    """A model whose replicas are elsewhere in the cluster.

    Args:
        handle: the handle of its deployment.
    """

    body_bytes = BODY_BYTES

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def reply(self, body: bytes, headers: Mapping[str, str], version: str | None) -> Reply:
        """The reply of a replica; of another replica if the first dies, as predictions change nothing."""
        from ray.exceptions import RayError
        from ray.serve.exceptions import BackPressureError, RayServeException

        handle = self._handle.options(multiplexed_model_id=version) if version else self._handle
        for _ in range(MAX_TRIES):
            try:
                return Reply(*await handle.answer.remote(body, dict(headers), version))
            except BackPressureError:
                return error_reply(RequestError("Overloaded", "the queue of the model is full"))
            except (RayError, RayServeException) as error:  # the second of a model that could not be deployed
                print(f"marina: a replica did not answer: {type(error).__name__}", flush=True)
        return refusal(503, "NoReplica", "no replica of the model answered", {"retry-after": "1"})

    async def describe(self, version: str | None) -> Json:
        """The description of a version; None if there is no such version. Ray's errors if no replica answers."""
        from ray.serve.exceptions import BackPressureError

        try:
            described: Json = await asyncio.wait_for(self._handle.describe.remote(version), READY_S)
        except BackPressureError:
            return {}  # it is busy
        return described

    async def is_ready(self, version: str | None) -> bool | None:
        """Whether a replica answers; None if there is no such version."""
        try:
            return None if await self.describe(version) is None else True
        except Exception:
            return False


class Front:
    """All URLs of a server, for all models; their replicas also answer /predictions/NAME themselves.

    Args:
        models: the names of the models, which are also the names of their applications.
    """

    def __init__(self, models: list[str]) -> None:
        from ray import serve

        self._urls = Urls({name: Remote(serve.get_app_handle(name)) for name in models}, read_tokens(os.environ))

    async def __call__(self, request: Any) -> Any:
        """Answer a request of HTTP."""
        return await _respond(self._urls, request)


class Replica:
    """A model on a core group: the cores that Ray has given to this process.

    Args:
        name: the model's name.
        archives: the file names of its archives: the version to serve, and other versions that requests may name.
    """

    body_bytes = BODY_BYTES

    def __init__(self, name: str, archives: list[str]) -> None:
        import ray
        from ray import serve

        self._name = name
        opened = [open_archive(archive_path(file)) for file in archives]
        self._archives = {archive.version: archive for archive in opened}
        if len(self._archives) < len(archives):
            raise ValueError(f"two archives of {name} have the same version: {', '.join(archives)}")
        self._default = next(iter(self._archives))

        async def load_other(version: str) -> Batches:
            return await asyncio.to_thread(self._load, version, False)

        resources = ray.get_runtime_context().get_assigned_resources()
        self._cores = int(resources.get(NEURON_CORES) or resources.get("CPU") or 1)
        self._main = self._load(self._default)
        # versions that requests name share the replica; Ray sends their requests to replicas that have them
        self._load_multiplexed = serve.multiplexed(max_num_models_per_replica=MAX_LOADED_VERSIONS)(load_other)
        self._urls = Urls({name: self}, read_tokens(os.environ))
        _Emitter(self._main.model, name).start()

    async def __call__(self, request: Any) -> Any:
        """Answer a request of HTTP, for /predictions/NAME and its versions."""
        return await _respond(self._urls, request)

    async def answer(self, body: bytes, headers: Mapping[str, str], version: str | None) -> tuple[Any, ...]:
        """A reply as plain values, which processes without this code can read."""
        return tuple(await self.reply(body, headers, version))

    async def reply(self, body: bytes, headers: Mapping[str, str], version: str | None) -> Reply:
        """The reply of a version of the model, by default of the first."""
        if version is None or version == self._default:
            return await self._main.reply(body, headers)
        if version not in self._archives:
            return unknown_version(self._name, version)
        try:
            batches: Batches = await self._load_multiplexed(version)
        except WorkerError as error:  # to Ray, an exception is a replica to try again
            message = f"version {version} of {self._name} cannot be served: {error}"
            return error_reply(RequestError("ModelFailed", message))
        return await batches.reply(body, headers)

    async def describe(self, version: str | None) -> Json:
        """The description of a version, as TorchServe's management API gives it; None if there is none."""
        if version is not None and version not in self._archives:
            return None
        is_other = version is not None and version != self._default
        batches: Batches = await self._load_multiplexed(version) if is_other else self._main
        described: Json = batches.model.describe()
        return described

    async def is_ready(self, version: str | None) -> bool | None:
        """Whether this replica has a version, which it can answer with; None if it has not."""
        return None if version is not None and version not in self._archives else True

    def _load(self, version: str, own_group: bool = True) -> Batches:
        archive = self._archives[version]
        settings = read_settings(archive.config)
        kind = engine_module(read_contents(archive.folder / ARTIFACT_FOLDER).engine).CORES
        if not own_group and kind.exclusive:
            raise PlacementError(f"version {version} needs {kind.name} of its own", "serve it as a model of its own")
        # as many groups as this node has; the replica takes one of them
        count = max(1, len(kind.usable()) // self._cores)
        groups = ",".join([str(self._cores)] * count) if own_group else None
        settings = settings._replace(core_groups=groups)
        return Batches(lambda: Model(archive.folder / ARTIFACT_FOLDER, settings, TASKS), settings.batch_size)


async def _respond(urls: Urls, request: Any) -> Any:
    """Answer a request of Starlette."""
    from starlette.responses import Response

    reply = await urls.answer(request.method, request.scope["path"], dict(request.headers), lambda _: request.body())
    return Response(reply.body, reply.status, dict(reply.headers), reply.media_type)


class _Emitter(threading.Thread):
    """Passes the counters of a model to Ray, which exports them to Prometheus as ray_NAME."""

    def __init__(self, model: Model, name: str) -> None:
        from ray.util.metrics import Counter

        super().__init__(name="metrics", daemon=True)
        self._metrics, self._name = model.metrics, name
        self._counters = {
            counter_name: Counter(counter_name, metric.meaning, (*metric.labels, "model"))
            for counter_name, metric in COUNTERS.items()
        }

    def run(self) -> None:
        self._metrics.add(WORKER_STARTS, 1)
        last_emit = time.monotonic()
        while True:
            time.sleep(EMIT_S)
            now = time.monotonic()
            self._metrics.add(READY_SECONDS, now - last_emit)
            last_emit = now
            for (name, labels), value in self._metrics.take().items():
                tags = dict(zip((*COUNTERS[name].labels, "model"), (*labels, self._name), strict=True))
                self._counters[name].inc(value, tags)


def model(arguments: Mapping[str, Any]) -> Any:
    """The application of a model: `import_path: marina_app:model` in a config.yaml of Ray Serve.

    Args:
        arguments: name: the model's name; archives: the file names of its versions, the default version first.
    """
    from ray import serve

    archives = list(arguments["archives"])
    config = open_archive(archive_path(archives[0])).config
    groups = parse_core_groups(config["handler"]["core_groups"] or "1")
    options = {
        # requests that are computed, and requests that fill the next batch meanwhile
        "max_ongoing_requests": 2 * config["batchSize"],
        "max_queued_requests": config["jobQueueSize"],
        "num_replicas": len(groups),
        "ray_actor_options": {"num_cpus": groups[0]},
        "graceful_shutdown_timeout_s": config["responseTimeout"],
        "health_check_timeout_s": config["responseTimeout"],
    }
    return serve.deployment(name="model", **options)(Replica).bind(str(arguments["name"]), archives)


def front(arguments: Mapping[str, Any]) -> Any:
    """The application with all URLs: `import_path: marina_app:front`.

    Args:
        arguments: models: the names of the models.
    """
    from ray import serve

    options = {"max_ongoing_requests": 10_000, "ray_actor_options": {"num_cpus": 0}}
    return serve.deployment(name="front", **options)(Front).bind(list(arguments["models"]))
