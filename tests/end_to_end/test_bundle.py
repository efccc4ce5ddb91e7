"""Bundles through the real TorchServe: six models in one worker, on the CPU and on four cores of the stand-in."""

from __future__ import annotations

import json
import random
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from handlers.worker.answering.model import Model
from handlers.worker.archive.artifact import ARTIFACT_FOLDER
from handlers.worker.settings import read_settings
from handlers.worker.tasks import TASKS
from marina.client import Client
from marina.project import Project
from tests.conftest import WORDS, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.standin import standin_environment

pytestmark = pytest.mark.long

REQUESTS = 2000
CLIENTS = 16
TEXTS = [*WORDS, " ".join(WORDS), " ".join(WORDS[:9]), "change company address", "çà 日本"]
MEMBERS = {
    "intent": "text-classification",
    "same": "text-classification",
    "pairs": "text-classification",
    "search": "sentence-embedding",
    "ner": "token-classification",
    "qa": "question-answering",
}
ROUNDED = 0.02  # of the stand-in's outputs, which are rounded to bf16


def make_models(project: Project, engine: str, core_groups: str | None = None) -> None:
    """Specs of six tiny models with different weights and equal tokenizers, and of a bundle of them."""
    for seed, (name, task) in enumerate(MEMBERS.items()):
        save_tiny_model(project.root / "weights" / name, task, seed)
        source = {"path": f"weights/{name}"}
        write_spec(project, name, task=task, source=source, engine=engine, shapes={"exact": ["1x16", "4x64"]})
    bundle = {"name": "bot", "bundle": list(MEMBERS), "core_groups": core_groups}
    (project.models / "bot.yaml").write_text(yaml.safe_dump(bundle))


def inputs_for(name: str, chance: random.Random) -> Any:
    if name == "qa":
        return {"question": chance.choice(TEXTS), "context": chance.choice(TEXTS)}
    if name == "pairs":
        return {"text": chance.choice(TEXTS), "text_pair": chance.choice(TEXTS)}
    return [chance.choice(TEXTS) for _ in range(chance.randint(1, 3))]


def mixed(count: int = REQUESTS) -> list[tuple[str, Any]]:
    chance = random.Random(0)
    return [(name, inputs_for(name, chance)) for name in chance.choices(list(MEMBERS), k=count)]


def close(one: Any, other: Any, within: float) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key], within) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(close(a, b, within) for a, b in zip(one, other, strict=True))
    return bool(abs(one - other) <= within) if isinstance(one, float) else bool(one == other)


def by_label(answer: Any) -> Any:
    """Labels by name: rounding may change the order of labels with nearly equal scores."""
    if isinstance(answer, list) and answer and isinstance(answer[0], list):
        return [by_label(one) for one in answer]
    if isinstance(answer, list) and answer and isinstance(answer[0], dict) and set(answer[0]) == {"label", "score"}:
        return {entry["label"]: entry["score"] for entry in answer}
    return answer


def alone(project: Project, tmp_path: Path) -> Callable[[str, Any], Any]:
    """The answer of a model's own archive, in this process."""
    models: dict[str, Model] = {}

    def answer(name: str, inputs: Any) -> Any:
        if name not in models:
            with zipfile.ZipFile(project.model_store / f"{name}.mar") as file:
                file.extractall(tmp_path / name)
            config = yaml.safe_load((tmp_path / name / "model-config.yaml").read_text())
            models[name] = Model(tmp_path / name / ARTIFACT_FOLDER, read_settings(config), TASKS)
        body = json.dumps({"inputs": inputs}).encode()
        (reply,) = models[name].reply([(body, {"content-type": "application/json"})])
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    return answer


def ask_all(server: Server, wanted: list[tuple[str, Any]], path: Callable[[str], str], named: bool) -> list[Any]:
    """The answers to many requests of several clients at once; path gives the archive for a model."""

    def ask(one: tuple[str, Any]) -> Any:
        name, inputs = one
        body = {"model": name, "inputs": inputs} if named else {"inputs": inputs}
        deadline = time.monotonic() + 120
        while (found := server.post(path(name), body)).status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.2)  # on a busy machine the worker may have more than it takes at once, and says so
        assert found.status_code == 200, found.text
        return found.json()

    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(ask, wanted))


@pytest.mark.parametrize(("engine", "count"), [("openvino", REQUESTS), ("torchscript", REQUESTS // 4)])
def test_six_models_answer_in_one_worker_as_they_do_alone(engine: str, count: int, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    make_models(project, engine)
    packed = run_marina(project, "archive")
    assert packed.returncode == 0, packed.stderr
    wanted, expected = mixed(count), alone(project, tmp_path)
    with serving(project, "bot") as server:
        assert len(server.worker_pids("bot")) == 1
        for (name, inputs), found in zip(wanted, ask_all(server, wanted, lambda _: "bot", named=True), strict=True):
            assert close(by_label(found), by_label(expected(name, inputs)), 1e-4), (name, inputs)
        check_client(server)
        check_metrics(server)
        check_upgrade(server, project)


def check_client(server: Server) -> None:
    with Client.http(f"http://127.0.0.1:{server.ports[0]}", server.token) as client:
        assert len(client.classify("bot:intent", ["ok"], top_k=1)[0]) == 1
        assert len(client.embed("bot:search", ["ok"])[0]) == 32
        answers = client.predict_with("bot", ["intent", "ner", "qa"], "ok", {"intent": {"top_k": 1}})
        assert len(answers["intent"]) == 1
        assert answers["qa"]["type"] == "InvalidInstance"
    assert server.marina("predict", "bot:intent", "ok").returncode == 0
    refused = server.marina("predict", "bot", "ok")
    assert refused.returncode == 1
    assert 'the JSON body needs a "model": intent, same, pairs' in refused.stderr


def check_metrics(server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.token('management')}"}
    url = f"http://127.0.0.1:{server.ports[1]}/models/bot?customized=true"
    (described,) = requests.get(url, headers=headers, timeout=10).json()
    own = described["customizedMetadata"]
    assert set(own["members"]) == set(MEMBERS)
    assert all(one["switch_ms"] >= 0 for one in own["members"].values())
    metrics = requests.get(f"http://127.0.0.1:{server.ports[2]}/metrics", timeout=10).text
    for name in MEMBERS:
        assert f'marina_requests_total{{member="{name}",status="200",ModelName="bot"' in metrics
    assert "marina_model_switches_total{" in metrics


def check_upgrade(server: Server, project: Project) -> None:
    """A model that was compiled again comes with the bundle; one that does not start changes nothing."""
    save_tiny_model(project.root / "weights" / "intent", "text-classification", seed=77)
    before = server.post("bot", {"model": "intent", "inputs": "ok"}).json()
    assert server.marina("archive", "bot").returncode == 0
    upgraded = server.marina("upgrade", "bot")
    assert upgraded.returncode == 0, upgraded.stderr
    after = server.post("bot", {"model": "intent", "inputs": "ok"}).json()
    assert not close(by_label(before), by_label(after), 1e-4)
    archive = project.model_store / "bot.mar"
    with zipfile.ZipFile(archive) as file:
        entries = {entry: file.read(entry) for entry in file.namelist()}
    broken = entries["artifact/ner/golden.json"].replace(b'"outputs": [', b'"outputs": [ ', 1)
    manifest = json.loads(entries["MAR-INF/MANIFEST.json"])
    manifest["model"]["modelVersion"] = "broken"
    entries |= {"artifact/ner/golden.json": broken, "MAR-INF/MANIFEST.json": json.dumps(manifest).encode()}
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    refused = server.marina("upgrade", "bot")
    assert refused.returncode == 1
    assert "ner: " in refused.stderr
    assert "golden.json is damaged" in refused.stderr
    assert server.post("bot", {"model": "ner", "inputs": "ok"}).status_code == 200


def test_six_models_on_four_neuroncores(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    make_models(project, "neuronx", "1,1,1,1")
    environment = standin_environment(tmp_path / "build-host", 0)
    del environment["NEURON_STANDIN"]  # no device where it is compiled
    packed = run_marina(project, "archive", **environment)
    assert packed.returncode == 0, packed.stderr
    wanted = mixed()
    with serving(project, "bot", **standin_environment(tmp_path / "host", 4)) as server:
        assert len(server.worker_pids("bot")) == 4
        together = ask_all(server, wanted, lambda _: "bot", named=True)
    # six archives with a core each need more cores than there are
    with serving(project, *MEMBERS, **standin_environment(tmp_path / "other", 6)) as server:
        expected = ask_all(server, wanted, lambda name: name, named=False)
    for (name, inputs), found, right in zip(wanted, together, expected, strict=True):
        assert close(by_label(found), by_label(right), ROUNDED), (name, inputs)
    refused = run_marina(project, "serve", *MEMBERS, **standin_environment(tmp_path / "third", 4))
    assert refused.returncode == 1
    assert "need 6 NeuronCores, and 4 can be used here" in refused.stderr
