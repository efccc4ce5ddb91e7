"""The versions of all models, and which of them answers requests that name none."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import uuid
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from handlers.worker.answering.reply import Reply
from handlers.worker.archive.artifact import CONFIG_FILE, MANIFEST
from handlers.worker.hosts.urls import unknown_version
from handlers.worker.telemetry.tracing import REQUEST_ID, client_request_id
from handlers.worker.values import Json
from marina.errors import ServerError
from marina.server.archives import DRAINING
from marina.server.hosts.direct.bodies import ALL_BODIES_BYTES
from marina.server.hosts.direct.metrics import Counts
from marina.server.hosts.direct.version import Version
from marina.server.transform import execution_parameters

WORKER_FILE = "handlers/worker/hosts/direct.py"  # in archives


class ServedModel:
    """A model: its versions, in the order in which they were registered, and the default one.

    Args:
        name: of the model.
        first: its first version, which is the default.
    """

    def __init__(self, name: str, first: Version) -> None:
        self.name = name
        self.versions = {first.version: first}
        self.default = first.version

    @property
    def body_bytes(self) -> int:
        """The largest body that one of its versions takes."""
        return min(ALL_BODIES_BYTES, max(version.body_bytes for version in self.versions.values()))

    def version(self, version: str | None) -> Version:
        """A version, by default the default one; ServerError if there is none."""
        try:
            return self.versions[version or self.default]
        except KeyError:
            raise ServerError(f"{self.name} has no version {version}") from None

    async def reply(self, body: bytes, headers: Mapping[str, str], version: str | None) -> Reply:
        """The reply of a version, by default of the default one, with an id that the log has too."""
        served = self.versions.get(version or self.default)
        if served is None:
            return unknown_version(self.name, version)
        new_id, client_id = str(uuid.uuid4()), client_request_id(headers)
        logged_id = f"{client_id} ({new_id})" if client_id else new_id
        reply = await served.reply(body, {**headers, REQUEST_ID: logged_id})
        return reply._replace(headers={**reply.headers, REQUEST_ID: new_id})

    async def describe(self, version: str | None) -> Json:
        """The description of a version; None if there is no such version."""
        served = self.versions.get(version or self.default)
        return await served.workers.describe() if served else None

    async def is_ready(self, version: str | None) -> bool | None:
        """Whether a version has a worker that is READY; None if there is no such version."""
        served = self.versions.get(version or self.default)
        return served.is_ready if served else None


class Models:
    """All models.

    Args:
        model_store: the folder of archives.
        temp: where archives are unpacked.
        environment: of workers.
        write_log: called with each line for the log of workers.

    Attributes:
        by_name: the models.
        coming: names of models that are to be registered first; the server is not ready before.
        counts: what their workers have counted.
    """

    def __init__(
        self, model_store: Path, temp: Path, environment: Mapping[str, str], write_log: Callable[[str], None]
    ) -> None:
        self._model_store, self._temp, self._environment, self._write_log = model_store, temp, environment, write_log
        self._numbers = itertools.count(9000)
        self.by_name: dict[str, ServedModel] = {}
        self.coming: set[str] = set()
        self.counts = Counts()
        self._ending: set[asyncio.Task[None]] = set()  # end versions that are registered no more

    def execution_parameters(self) -> Json:
        """The answer to SageMaker's Batch Transform; of no use without a model that has workers."""
        versions = [version for model in self.by_name.values() for version in model.versions.values()]
        configs = [version.config for version in versions if version.config]
        return execution_parameters(configs, lambda size: max(1, ALL_BODIES_BYTES // size)) if configs else {}

    def model(self, name: str) -> ServedModel:
        """A model; ServerError if it is not registered."""
        try:
            return self.by_name[name]
        except KeyError:
            raise ServerError(f"Model not found: {name}") from None

    async def register(self, file: str, name: str | None) -> Version:
        """Register an archive of the model store and start its workers, without waiting for them.

        Raises:
            ServerError: there is no such archive, it is none of Marina's or too old, or the version is registered.
        """
        if Path(file).name != file:
            raise ServerError(f"{file} is not the name of a file in the model store")
        path = self._model_store / file
        folder = self._temp / "models" / f"{next(self._numbers)}-{path.stem.lstrip('.')}"
        try:
            manifest, config = await asyncio.to_thread(_unpack, path, folder)
            name, number = name or str(manifest["modelName"]), str(manifest["modelVersion"])
            if name in self.by_name and number in self.by_name[name].versions:
                raise ServerError(f"Model version {number} is already registered for model {name}")
            count = partial(self.counts.add, name)
            version = Version(name, number, folder, config, self._environment, self._logger(name, number), count)
        except (KeyError, ValueError, TypeError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ServerError(f"{file}: a setting in it is wrong or missing: {error}", "pack it again") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.coming.discard(name)
        if name in self.by_name:
            self.by_name[name].versions[number] = version
        else:
            self.by_name[name] = ServedModel(name, version)
        version.workers.scale(int(version.config.get("minWorkers", 0)))
        return version

    async def unregister(self, name: str, number: str | None) -> None:
        """Stop the workers of a version of a model, or of all versions; ServerError if there is none.

        What has begun to end goes on if the caller is cancelled.
        """
        self.coming.discard(name)
        model = self.model(name)
        gone = [model.version(number)] if number else list(model.versions.values())
        for version in gone:
            del model.versions[version.version]
        if not model.versions:
            del self.by_name[name]
        elif model.default not in model.versions:
            model.default = next(iter(model.versions))
        ending = [asyncio.create_task(_end(version)) for version in gone]
        for task in ending:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        await asyncio.wait(ending)

    async def close(self) -> None:
        """Let all workers answer what they have, and end them. New requests get 503."""
        served = [version for model in self.by_name.values() for version in model.versions.values()]
        await asyncio.gather(*(version.close() for version in served), *self._ending)

    def _logger(self, name: str, number: str) -> Callable[[int, str], None]:
        """Lines in the form of TorchServe's log, which `marina logs` reads."""

        def log(worker: int, line: str) -> None:
            now = datetime.now().isoformat(timespec="milliseconds")
            self._write_log(f"{now} [INFO ] W-{9000 + worker}-{name}_{number}-stdout direct - {line}")

        return log


async def _end(version: Version) -> None:
    await version.close()
    shutil.rmtree(version.folder, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Unpack an archive; returns its manifest's model, and its model-config.yaml or None if it has none.

    Raises:
        ServerError: it is missing, damaged, or its code cannot run here.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            model: dict[str, Any] = json.loads(archive.read(MANIFEST))["model"]
            if not {CONFIG_FILE, WORKER_FILE} <= names and model["modelVersion"] != DRAINING:
                raise ServerError(f"{path.name} was packed for TorchServe alone", "pack it again with marina archive")
            config = yaml.safe_load(archive.read(CONFIG_FILE)) if CONFIG_FILE in names else None
            archive.extractall(folder)
    except FileNotFoundError:
        raise ServerError(f"{path.name} is not in the model store") from None
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ServerError(f"{path.name} is damaged, or is not an archive of Marina: {error}") from None
    return model, config
