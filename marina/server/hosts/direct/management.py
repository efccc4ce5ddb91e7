"""The part of TorchServe's management API that Marina's commands use, so that they steer both hosts alike."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from handlers.worker.answering.reply import RETRY_AFTER, Reply
from handlers.worker.hosts.urls import refusal
from handlers.worker.request.documents import dump
from handlers.worker.values import Json
from marina.errors import ServerError
from marina.server.hosts.direct.models import Models
from marina.server.hosts.direct.version import Version
from marina.server.hosts.direct.worker import WorkerLost


async def manage(models: Models, method: str, path: str, query: Mapping[str, str]) -> Reply:
    """Answer a call.

    POST   /models?url=FILE[&model_name=NAME]      register
    GET    /models                                 the names of all models
    GET    /models/NAME[/VERSION]                  their status; VERSION may be `all`, and &customized=true describes
    PUT    /models/NAME[/VERSION]?min_worker=N     scale
    PUT    /models/NAME/VERSION/set-default        the version that answers
    DELETE /models/NAME[/VERSION]                  unregister
    """
    _, root, *rest = path.split("/")
    name, version, verb, *more = [*map(unquote, rest), "", "", ""]
    if root != "models" or any(more):
        return refusal(404, "ResourceNotFoundException", "there is /models")
    try:
        if not name:
            return await _of_all(models, method, query)
        if method == "GET":
            return _answer(await _statuses(models, name, version, query.get("customized") == "true"))
        if method == "PUT" and verb == "set-default":
            models.model(name).version(version)
            models.model(name).default = version
            return _done(f"{version} is the default version of {name}")
        if method == "PUT" and not verb:
            workers = int(query["min_worker"])
            if workers < 0:
                raise ValueError(f"min_worker {workers}")
            models.model(name).version(version).workers.scale(workers)
            return _done(f"{name} has {query['min_worker']} workers")
        if method == "DELETE" and not verb:
            await models.unregister(name, version or None)
            return _done(f"{name} is not served any more")
    except ServerError as error:
        return refusal(404, "ModelNotFoundException", str(error))
    except WorkerLost as lost:
        return refusal(503, "ServiceUnavailableException", str(lost), RETRY_AFTER)
    except (KeyError, ValueError) as error:
        return refusal(400, "BadRequestException", f"a parameter is wrong or missing: {error}")
    return refusal(405, "MethodNotAllowedException", f"{method} is not a method of {path}")


async def _of_all(models: Models, method: str, query: Mapping[str, str]) -> Reply:
    if method == "GET":
        return _answer({"models": [{"modelName": name, "modelUrl": f"{name}.mar"} for name in models.by_name]})
    if method != "POST":
        return refusal(405, "MethodNotAllowedException", f"{method} is not a method of /models")
    try:
        version = await models.register(query["url"], query.get("model_name"))
    except ServerError as error:
        return refusal(400, "BadRequestException", str(error))
    return _done(f"version {version.version} of {version.name} is registered")


async def _statuses(models: Models, name: str, version: str, described: bool) -> list[Json]:
    model = models.model(name)
    versions = list(model.versions.values()) if version == "all" else [model.version(version or None)]
    return [await _status(served, described) for served in versions]


async def _status(version: Version, described: bool) -> Json:
    fields = {
        "modelName": version.name,
        "modelVersion": version.version,
        "minWorkers": version.workers.target,
        "maxWorkers": version.workers.target,
        "batchSize": version.batch_size,
        "maxBatchDelay": 0,  # nothing waits for a batch to fill
        "workers": [
            {"id": str(worker.pid), "pid": worker.pid, "status": "READY" if worker.ready else "UNLOADING"}
            for worker in version.workers.started
        ],
        "jobQueueStatus": {"pendingRequests": version.pending},
    }
    if not described:
        return fields
    return {**fields, "customizedMetadata": await version.workers.describe()}


def _answer(value: Json) -> Reply:
    return Reply(200, dump(value), {})


def _done(status: str) -> Reply:
    return _answer({"status": status})
