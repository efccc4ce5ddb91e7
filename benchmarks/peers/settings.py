"""Each peer: its packages, start command and requests, and what its own documentation says about that setup."""

from __future__ import annotations

import json
from typing import NamedTuple


class Peer(NamedTuple):
    """One peer in one setting.

    Attributes:
        name: name in tables.
        packages: name of its requirements file beside this one, and of its virtual environment.
        task: "text-classification" or "sentence-embedding": which of the two models it serves.
        start: the command, with placeholders {bin}, {port}, {model}, {workers} and {here}.
        workers: number of processes that load the model; the cores are divided among their threads.
        path: path of the URL for requests.
        body: format of the JSON for one text.
        quote: what its documentation says, and where.
        export: a command that first creates the model's folder from {source}, if the peer needs another format.
    """

    name: str
    packages: str
    task: str
    start: str
    workers: int
    path: str
    body: str  # "inputs", or "infinity"
    quote: str
    export: str | None = None

    def bodies(self, texts: list[str]) -> list[bytes]:
        """Request bodies with one text each."""
        if self.body == "infinity":
            return [json.dumps({"model": "peer", "input": [text]}).encode() for text in texts]
        return [json.dumps({"inputs": text}).encode() for text in texts]


FASTAPI = (
    "{bin}/uvicorn --app-dir {here} fastapi_server:app --host 127.0.0.1 --port {port} --workers {workers} "
    "--log-level warning"
)
LITSERVE = "{bin}/python {here}/litserve_server.py {port}"
INFINITY = (
    "{bin}/infinity_emb v2 --model-id {model} --served-model-name peer --host 127.0.0.1 --port {port} --device cpu "
    "--engine ENGINE --batch-size 32 --no-model-warmup --log-level error"
)
EXPORT = "{bin}/optimum-cli export onnx --library transformers --task {onnx_task} --model {source} {model}"
ONNX_TASKS = {"text-classification": "text-classification", "sentence-embedding": "feature-extraction"}
PIPELINE = 'transformers, "Web server inference": "a single thread to handle the heavier load of running Pipeline"'
WORKERS = 'FastAPI, "Server Workers": "replication of processes to take advantage of multiple cores"'
BATCHING = 'LitServe, "Batching": max_batch_size and batch_timeout'
DEFAULTS = "infinity, command line: torch is the default engine"
ONNX = 'infinity, command line: "optimum uses ONNX on GPU/CPU"; exported with optimum-cli'


def peers(cores: int) -> list[Peer]:
    """Every peer in the settings that its documentation offers; if there are two, both are measured."""
    settings = []
    for name, packages, start, quotes in (
        ("FastAPI + pipeline", "fastapi", FASTAPI, (PIPELINE, f"{PIPELINE}; {WORKERS}")),
        ("LitServe", "litserve", LITSERVE, (BATCHING, f"{BATCHING}; workers_per_device")),
    ):
        task, path = "text-classification", "/predict"
        for workers, quote in zip(sorted({1, cores}), quotes, strict=True):
            label = f"{name}, {workers} worker{'s' if workers > 1 else ''}"
            settings.append(Peer(label, packages, task, start, workers, path, "inputs", quote))
    for engine, quote in (("torch", DEFAULTS), ("optimum", ONNX)):
        start = INFINITY.replace("ENGINE", engine)
        export = EXPORT if engine == "optimum" else None
        for task, path in (("text-classification", "/classify"), ("sentence-embedding", "/embeddings")):
            settings.append(Peer(f"infinity, {engine}", "infinity", task, start, 1, path, "infinity", quote, export))
    return settings
