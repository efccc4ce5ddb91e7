"""Each peer: its packages, start command and requests, and what its own documentation says about that setup."""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from marina.bench.load.payload import bodies_of

INTENTS, EMBEDDINGS, ENTITIES = TASKS = "text-classification", "sentence-embedding", "token-classification"
Format = Literal["inputs", "openai"]


class Peer(NamedTuple):
    """One peer in one setting.

    Attributes:
        name: name in tables.
        packages: name of its requirements file beside this one, and of its virtual environment.
        task: the task of the model that it serves.
        start: the command, with the placeholders of `process`, as {bin} and {port}.
        workers: number of processes that load the model; the cores are divided among their threads.
        quote: what its documentation says, and where.
        path: path of the URL for requests.
        format: of requests and answers: {"inputs": ...} as Marina's, or OpenAI's embeddings.
        precision: "f32" or "int8".
        library: what computes the graph; for quantize.py, and in the name of the prepared model.
        prepare: a command that first makes the model's folder {model} from {source}, if the peer needs another format.
    """

    name: str
    packages: str
    task: str
    start: str
    workers: int
    quote: str
    path: str = "/predict"
    format: Format = "inputs"
    precision: str = "f32"
    library: str = ""
    prepare: str | None = None


def request_bodies(form: Format, texts: list[str], count: int) -> list[bytes]:
    """Request bodies with `count` texts each."""
    bodies = bodies_of(list(texts), count)
    if form == "inputs":
        return bodies
    inputs = (json.loads(body)["inputs"] for body in bodies)
    return [json.dumps({"model": "peer", "input": [text] if count == 1 else text}).encode() for text in inputs]


FASTAPI = (
    "{bin}/uvicorn --app-dir {here} fastapi_server:app --host 127.0.0.1 --port {port} --workers {workers} "
    "--log-level warning"
)
LITSERVE = "{bin}/python {here}/litserve_server.py {port}"
MOSEC = "{bin}/python {here}/mosec_server.py --address 127.0.0.1 --port {port} --log-level error"
LLAMA = "{bin}/python {here}/llama_server.py {port}"
INFINITY = (
    "{bin}/infinity_emb v2 --model-id {model} --served-model-name peer --host 127.0.0.1 --port {port} --device cpu "
    "--engine optimum --pooling-method mean --batch-size 32 --no-model-warmup --log-level error"
)
QUANTIZE = "{bin}/python {here}/quantize.py {library} {task} {source} {model} {texts}"
GGUF = "{bin}/python {here}/gguf_model.py {source} {model}"

FASTAPI_WORKERS = (
    'transformers, "Web server inference": "a single thread to handle the heavier load of running Pipeline"; '
    'FastAPI, "Server Workers": "replication of processes to take advantage of multiple cores"'
)
BATCHING = 'LitServe, "Batching": max_batch_size and batch_timeout; workers_per_device'
MOSEC_BATCHING = 'mosec, "Configuration": max_batch_size and max_wait_time; num, the processes of a stage'
ONNX = 'infinity, command line: "optimum uses ONNX on GPU/CPU"; it prefers a file with the name model_quantized.onnx'
SLOTS = "llama.cpp, tools/server: --embeddings, --parallel and continuous batching; weights in Q8_0"

# the libraries that compute in int8, by task: their names in quantize.py and in tables
INT8 = {
    INTENTS: {
        "ctranslate2": "CTranslate2",
        "openvino": "OpenVINO",
        "onnxruntime": "ONNX Runtime",
    },
    EMBEDDINGS: {
        "ctranslate2": "CTranslate2",
        "openvino": "OpenVINO",
        "st-openvino": "sentence-transformers, OpenVINO",
        "st-onnx": "sentence-transformers, ONNX",
        "fastembed": "fastembed",
    },
    ENTITIES: {
        "ctranslate2": "CTranslate2",
        "openvino": "OpenVINO",
        "onnxruntime": "ONNX Runtime",
    },
}


def peers(cores: int) -> list[Peer]:
    """Every peer: in int8 with one worker for all cores and with one for each, if it has workers; one in float32."""
    counts = sorted({1, cores})
    settings = []
    for task, libraries in INT8.items():
        for library in libraries:
            settings += _int8("mosec", MOSEC, "/inference", MOSEC_BATCHING, task, library, counts)
    settings += _int8("LitServe", LITSERVE, "/predict", BATCHING, INTENTS, "ctranslate2", counts)
    settings.append(
        Peer("llama.cpp", "llama", EMBEDDINGS, LLAMA, 1, SLOTS, "/v1/embeddings", "openai", "int8", "llama.cpp", GGUF)
    )
    settings += [
        Peer("infinity, ONNX", "infinity", task, INFINITY, 1, ONNX, path, "openai", "int8", "infinity", QUANTIZE)
        for task, path in ((INTENTS, "/classify"), (EMBEDDINGS, "/embeddings"))
    ]
    # in float32, as its documentation begins
    settings.append(Peer("FastAPI, pipeline", "fastapi", INTENTS, FASTAPI, cores, FASTAPI_WORKERS))
    return settings


def _int8(server: str, start: str, path: str, quote: str, task: str, library: str, counts: list[int]) -> list[Peer]:
    """A library that computes in int8 behind a server, with each number of workers."""
    name = f"{server}, {INT8[task][library]}"
    return [
        Peer(name, "int8", task, start, workers, quote, path, "inputs", "int8", library, QUANTIZE) for workers in counts
    ]
