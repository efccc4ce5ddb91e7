"""What the front of the host `direct` does with requests: tokens, bodies, clients that leave, metrics."""

from __future__ import annotations

import asyncio
import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from handlers.worker.hosts.urls import BODY_BYTES
from marina.server.archives import write_draining
from marina.server.hosts.direct import bodies
from marina.server.hosts.direct.front import Front
from marina.server.hosts.direct.models import Models, ServedModel
from marina.server.hosts.direct.pages import pages
from marina.server.run.state import Ports
from tests.marina.server.hosts.direct.fake import served, until_ready

PORTS = Ports()
TOKENS = {"inference": "for-inference", "management": "for-management"}
Message = dict[str, Any]


class Client:
    """Sends a request to a front, and reads what comes back."""

    def __init__(self, front: Front, leaves: bool = False) -> None:
        self._front, self._leaves = front, leaves
        self.sent: list[Message] = []

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def ask(
        self, method: str, path: str, *bodies: bytes, port: int = PORTS.inference, token: str = "for-inference"
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of the answer; status 0 if there is none."""
        parts = [*bodies] or [b""]

        async def receive() -> Message:
            if parts:
                body = parts.pop(0)
                return {"type": "http.request", "body": body, "more_body": bool(parts)}
            await asyncio.sleep(0.05 if self._leaves else 60)
            return {"type": "http.disconnect"}

        scope = {
            **{"type": "http", "method": method, "path": path, "query_string": b"", "server": ("127.0.0.1", port)},
            "headers": [(b"authorization", f"Bearer {token}".encode())],
        }
        await self._front(scope, receive, self.send)
        if not self.sent:
            return 0, {}, b""
        start, body = self.sent
        return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


def front_of(folder: Path) -> tuple[Front, Models]:
    models = Models(folder, folder / "temp", {}, lambda _: None)
    return Front(models, PORTS, [TOKENS["inference"]], TOKENS["management"], pages()), models


def test_a_request_is_answered_and_counted(tmp_path: Path) -> None:
    async def run() -> None:
        front, models = front_of(tmp_path)
        async with served(tmp_path / "m", partial(models.counts.add, "m")) as (version, _):
            models.by_name["m"] = ServedModel("m", version)
            await until_ready(version)
            status, headers, body = await Client(front).ask("POST", "/predictions/m", b"a ", b"text")
            assert (status, headers["content-type"], body) == (200, "text/plain", b"a text")
            assert headers["content-length"] == "6"
            assert uuid.UUID(headers["x-request-id"])
            models.coming.add("n")  # so the server is not ready, as probes are told, and the counts are not
            assert (await Client(front).ask("GET", "/ping"))[0] == 503
            status, headers, page = await Client(front).ask("GET", "/metrics", port=PORTS.metrics, token="")
            families = {family.name: family for family in text_string_to_metric_families(page.decode())}
            assert families["marina_requests"].documentation.startswith("Answered requests")
            (sample,) = families["marina_requests"].samples
            assert (sample.labels["ModelName"], sample.labels["status"], sample.value) == ("m", "200", 1)
            statuses = {name: families[name].samples[0].value for name in families if name.startswith("Requests")}
            assert statuses == {"Requests2XX": 1, "Requests4XX": 0, "Requests5XX": 0}
            (sample,) = families["ts_inference_requests"].samples
            assert (sample.labels["model_name"], sample.value) == ("m", 1)
            assert (await Client(front).ask("GET", "/", port=PORTS.metrics))[0] == 404

    asyncio.run(run())


def test_a_client_that_leaves_gets_nothing_and_is_not_computed(tmp_path: Path) -> None:
    async def run() -> None:
        front, models = front_of(tmp_path)
        async with served(tmp_path / "m", batchSize=1) as (version, _):
            models.by_name["m"] = ServedModel("m", version)
            await until_ready(version)
            slow = asyncio.create_task(Client(front).ask("POST", "/predictions/m", b"slow"))
            await asyncio.sleep(0.02)
            assert await Client(front, leaves=True).ask("POST", "/predictions/m", b"die") == (0, {}, b"")
            assert (await slow)[0] == 200
            assert version.workers.ready

    asyncio.run(run())


@pytest.mark.parametrize("sizes", [[BODY_BYTES + 1], [BODY_BYTES, 1], [BODY_BYTES, BODY_BYTES, BODY_BYTES]])
def test_a_body_is_read_up_to_its_limit(tmp_path: Path, sizes: list[int]) -> None:
    front, models = front_of(tmp_path)
    write_draining(tmp_path / "m.mar")
    asyncio.run(models.register("m.mar", "m"))
    status, _, body = asyncio.run(Client(front).ask("POST", "/predictions/m", *(b"x" * size for size in sizes)))
    assert (status, json.loads(body)["type"]) == (413, "BodyTooLarge")


def test_a_model_without_workers_refuses(tmp_path: Path) -> None:
    front, models = front_of(tmp_path)
    write_draining(tmp_path / "m.mar")
    asyncio.run(models.register("m.mar", "m"))
    status, headers, _ = asyncio.run(Client(front).ask("POST", "/predictions/m", b"x"))
    assert (status, headers["retry-after"]) == (503, "1")


def test_what_has_no_worker_is_not_ready(tmp_path: Path) -> None:
    front, models = front_of(tmp_path)
    write_draining(tmp_path / "m.mar")
    asyncio.run(models.register("m.mar", "m"))
    for path in ("/ping", "/v1/models/m", "/v2/models/m", "/models/m"):
        assert asyncio.run(Client(front).ask("GET", path))[0] == 503
    status, _, body = asyncio.run(Client(front).ask("GET", "/v1/models/other", token="wrong"))
    assert (status, b"there are" in body) == (404, False)


def test_a_body_that_does_not_come_is_waited_for_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    front, models = front_of(tmp_path)
    write_draining(tmp_path / "m.mar")
    asyncio.run(models.register("m.mar", "m"))

    async def silent() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    client = Client(front)
    scope = {
        **{"type": "http", "method": "POST", "path": "/predictions/m", "server": ("127.0.0.1", PORTS.inference)},
        "headers": [(b"authorization", b"Bearer for-inference")],
    }
    asyncio.run(front(scope, silent, client.send))
    assert client.sent[0]["status"] == 408
    assert (b"connection", b"close") in client.sent[0]["headers"]


@pytest.mark.parametrize("token", ["", "for-inference", "wrong"])
def test_strangers_cannot_manage(tmp_path: Path, token: str) -> None:
    front, _ = front_of(tmp_path)
    status, headers, _ = asyncio.run(Client(front).ask("GET", "/models", port=PORTS.management, token=token))
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    allowed = asyncio.run(Client(front).ask("GET", "/models", port=PORTS.management, token="for-management"))
    assert (allowed[0], json.loads(allowed[2])) == (200, {"models": []})
    status, _, _ = asyncio.run(Client(front).ask("POST", "/predictions/m", b"x", token="wrong"))
    assert status == 401
