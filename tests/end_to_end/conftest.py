"""A real TorchServe on free ports, in a project of its own, driven by the command `marina`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from marina.project import Project
from tests.conftest import make_project, save_tiny_model, write_spec
from tests.ports import free_ports

# the models of `tiny_server`
TASKS = {
    "classify": "text-classification",
    "rank": "reranking",
    "nli": "zero-shot-classification",
    "tag": "token-classification",
    "answer": "question-answering",
    "embed": "sentence-embedding",
    "sparse": "sparse-embedding",
    "late": "multi-vector-embedding",
}
MARINA = (sys.executable, "-m", "marina")


def port_options(ports: list[int]) -> list[str]:
    names = ("--port", "--management-port", "--metrics-port", "--grpc-inference-port", "--grpc-management-port")
    return [part for name, port in zip(names, ports, strict=True) for part in (name, str(port))]


@dataclass(frozen=True)
class Server:
    """A running server and how to reach it."""

    project: Project
    ports: list[int]
    environment: dict[str, str]

    def marina(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_marina(self.project, *arguments, **self.environment)

    def token(self, kind: str = "inference") -> str:
        return str(json.loads((self.project.run / "key_file.json").read_text())[kind]["key"])

    @property
    def url(self) -> str:
        """Of the inference API."""
        return f"http://127.0.0.1:{self.ports[0]}"

    def post(self, model: str, body: Any, content_type: str = "application/json", **options: Any) -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": content_type}
        return requests.post(f"{self.url}/predictions/{model}", data=data, headers=headers, timeout=60, **options)

    def worker_pids(self, model: str) -> list[int]:
        headers = {"Authorization": f"Bearer {self.token('management')}"}
        url = f"http://127.0.0.1:{self.ports[1]}/models/{model}"
        described = requests.get(url, headers=headers, timeout=10).json()
        return [worker["pid"] for worker in described[0]["workers"] if worker["status"] == "READY"]


def run_marina(project: Project, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command `marina` in a project."""
    return subprocess.run(
        [*MARINA, *arguments],
        cwd=project.root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


GRPC_START = """
import grpc, inference_pb2, inference_pb2_grpc, json
stub = inference_pb2_grpc.InferenceAPIsServiceStub(grpc.insecure_channel("127.0.0.1:{port}"))
metadata = (("protocol", "gRPC"), ("channel", "channel"), ("authorization", "Bearer {token}"))
def request(model, **inputs):
    return inference_pb2.PredictionsRequest(model_name=model, input=inputs)
def read(response):
    return json.loads(response.prediction)
"""


def run_grpc(server: Server, folder: Path, code: str) -> Any:
    """Run code with a client that is made from TorchServe's own protocol files; returns the JSON that it prints.

    Args:
        server: to call.
        folder: to put the client's modules into.
        code: that has `stub`, `metadata`, `request` and `read`.
    """
    if not (folder / "inference_pb2.py").exists():
        jar = Path(str(find_spec("ts").origin)).parent / "frontend" / "model-server.jar"  # type: ignore[union-attr]
        files = ["inference.proto", "google/rpc/status.proto"]
        with zipfile.ZipFile(jar) as archive:
            for name in files:
                archive.extract(name, folder)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder}"]
        subprocess.run([*command, f"--grpc_python_out={folder}", *files], check=True)
    start = GRPC_START.format(port=server.ports[3], token=server.token())
    result = subprocess.run(
        [sys.executable, "-c", start + code], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@contextmanager
def serving(project: Project, *names: str, **environment: str) -> Iterator[Server]:
    """Serve a project's archives; stops whatever happens."""
    ports = free_ports(5)
    try:
        result = run_marina(project, "serve", *names, *port_options(ports), **environment)
        assert result.returncode == 0, result.stderr
        yield Server(project, ports, environment)
    finally:
        run_marina(project, "stop")


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A small random model of every task, for tests that leave it as it is."""
    from tests.embedders import PROMPTS, WIDTH, save_embedder, save_late_interaction, save_sparse_encoder
    from tests.handlers.worker.tasks.architectures import save_model

    project = make_project(tmp_path_factory.mktemp("tasks"))
    for name, task in TASKS.items():
        if task == "sentence-embedding":
            save_embedder(project.root / "weights" / name, prompts=PROMPTS)
        elif task == "sparse-embedding":
            save_sparse_encoder(project.root / "weights" / name, prompts=PROMPTS)
        elif task == "multi-vector-embedding":
            save_late_interaction(project.root / "weights" / name)
        elif task in ("reranking", "zero-shot-classification"):
            save_tiny_model(project.root / "weights" / name, task)
        else:
            save_model(project.root / "weights" / name, "bert", task)
        source = {"path": f"weights/{name}"}
        fields: dict[str, Any] = {"task": task, "source": source, "shapes": {"exact": ["1x16", "4x64"]}}
        if task == "sentence-embedding":
            np.save(project.root / "ranges.npy", np.stack([np.full(WIDTH, -1.0), np.full(WIDTH, 1.0)]))
            fields["ranges"] = "ranges.npy"
        if task == "zero-shot-classification":
            fields["parameters"] = {"candidate_labels": ["invoice", "mouse"], "hypothesis_template": "{}"}
        write_spec(project, name, **fields, serving={"server_timing": name == "embed"})
    bundle = {"name": "match", "bundle": ["embed", "rank"], "chain": ["embed", "rank"]}
    (project.models / "match.yaml").write_text(json.dumps(bundle))
    packed = run_marina(project, "archive")
    assert packed.returncode == 0, packed.stderr
    with serving(project) as server:
        yield server
