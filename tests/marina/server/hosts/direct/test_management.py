"""The management API of the host `direct`, as Marina's commands call it."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.archive.artifact import CONFIG_FILE, MANIFEST
from marina.server.archives import DRAINING, write_draining
from marina.server.hosts.direct.management import manage
from marina.server.hosts.direct.models import WORKER_FILE, Models

Call = Callable[..., tuple[int, Any]]


@pytest.fixture
def models(tmp_path: Path) -> Models:
    (tmp_path / "store").mkdir()
    for name in ("one", "two"):
        write_draining(tmp_path / "store" / f"{name}.mar")
    return Models(tmp_path / "store", tmp_path / "temp", {}, lambda _: None)


@pytest.fixture
def call(models: Models) -> Call:
    def call(method: str, path: str, **query: str) -> tuple[int, Any]:
        reply = asyncio.run(manage(models, method, path, query))
        return reply.status, json.loads(reply.body)

    return call


def test_models_are_registered_and_listed_and_go(call: Call, tmp_path: Path) -> None:
    assert call("GET", "/models") == (200, {"models": []})
    assert call("POST", "/models", url="one.mar")[0] == 200
    assert call("POST", "/models", url="two.mar", model_name="intents")[0] == 200
    names = [entry["modelName"] for entry in call("GET", "/models")[1]["models"]]
    assert names == [DRAINING, "intents"]
    status, described = call("GET", "/models/intents")
    assert (status, described[0]["modelVersion"], described[0]["workers"]) == (200, DRAINING, [])
    assert call("GET", "/models/intents/all") == (status, described)
    assert call("PUT", f"/models/intents/{DRAINING}/set-default")[0] == 200
    assert len(list((tmp_path / "temp" / "models").iterdir())) == 2
    assert call("DELETE", "/models/intents")[0] == 200
    assert call("DELETE", f"/models/{DRAINING}/{DRAINING}")[0] == 200
    assert call("GET", "/models") == (200, {"models": []})
    assert list((tmp_path / "temp" / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "message"),
    [
        ("GET", "/models/nothing", {}, 404, "Model not found: nothing"),
        ("GET", "/models/one/3", {}, 404, "one has no version 3"),
        ("PUT", "/models/one/3/set-default", {}, 404, "one has no version 3"),
        ("PUT", "/models/one", {}, 400, "min_worker"),
        ("PUT", "/models/one", {"min_worker": "many"}, 400, "many"),
        ("POST", "/models", {}, 400, "url"),
        ("POST", "/models", {"url": "one.mar", "model_name": "one"}, 400, "already registered"),
        ("POST", "/models", {"url": "missing.mar"}, 400, "missing.mar is not in the model store"),
        ("POST", "/models", {"url": "../one.mar"}, 400, "not the name of a file"),
        ("POST", "/models", {"url": "file:///etc/passwd"}, 400, "not the name of a file"),
        ("POST", "/models", {"url": "broken.mar"}, 400, "is damaged, or is not an archive of Marina"),
        ("POST", "/models", {"url": "empty.mar"}, 400, "is damaged, or is not an archive of Marina"),
        ("POST", "/models", {"url": "unset.mar"}, 400, "a setting in it is wrong or missing: 'handler'"),
        ("PUT", "/models/one", {"min_worker": "-1"}, 400, "min_worker -1"),
        ("GET", "/models/one", {"customized": "true"}, 503, "no worker that is READY"),
        ("POST", "/models", {"url": "old.mar"}, 400, "was packed for TorchServe alone; pack it again"),
        ("PATCH", "/models", {}, 405, "PATCH"),
        ("POST", "/models/one", {}, 405, "POST"),
        ("GET", "/elsewhere", {}, 404, "/models"),
        ("GET", "/models/one/1/2/3", {}, 404, "/models"),
    ],
)
def test_what_cannot_be_done_has_a_reason(
    call: Call, tmp_path: Path, method: str, path: str, query: dict[str, str], status: int, message: str
) -> None:
    (tmp_path / "store" / "broken.mar").write_bytes(b"not a zip file")
    with zipfile.ZipFile(tmp_path / "store" / "old.mar", "w") as archive:
        archive.writestr(CONFIG_FILE, "")
        archive.writestr(MANIFEST, json.dumps({"model": {"modelName": "old", "modelVersion": "1"}}))
    with zipfile.ZipFile(tmp_path / "store" / "empty.mar", "w") as archive:
        archive.writestr("any", "")
    with zipfile.ZipFile(tmp_path / "store" / "unset.mar", "w") as archive:
        archive.writestr(MANIFEST, json.dumps({"model": {"modelName": "unset", "modelVersion": "1"}}))
        archive.writestr(CONFIG_FILE, "batchSize: 8")
        archive.writestr(WORKER_FILE, "")
    assert call("POST", "/models", url="one.mar", model_name="one")[0] == 200
    answered, document = call(method, path, **query)
    assert (answered, message in document["message"]) == (status, True), document
    # nothing is left of what was not registered
    assert len(list((tmp_path / "temp" / "models").iterdir())) == 1
