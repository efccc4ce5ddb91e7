"""reference/openapi.json: the bodies of requests and answers, for tools that read OpenAPI 3.1.

Every answer of the tests is checked against it, so it holds what the worker does.
"""

from __future__ import annotations

from typing import Any

from handlers.worker.errors import KINDS
from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import Task

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
LABEL: Schema = {"type": ["string", "number", "boolean", "null"]}
LABELS = {"$ref": "#/components/schemas/Labels"}


def _object(required: Schema, others: Schema) -> Schema:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **others},
        "additionalProperties": False,
    }


SHARED: dict[str, Schema] = {
    "Labels": {
        "description": "Labels with their scores, the best first.",
        "type": "array",
        "items": {
            "type": "object",
            "required": ["label", "score"],
            "properties": {"label": LABEL, "score": NUMBER},
            "additionalProperties": False,
        },
    },
    "Error": {
        "description": "Why a request was refused. Every type is explained in docs/reference/errors.md.",
        "type": "object",
        "required": ["code", "type", "error", "fix"],
        "properties": {
            "code": {"type": "integer"},
            "type": {"enum": sorted(KINDS)},
            "error": TEXT,
            "fix": TEXT,
        },
        "additionalProperties": False,
    },
    "ServerError": {
        "description": "What the host refuses itself: a wrong token, or a model that is not served.",
        "type": "object",
        "required": ["code", "type", "message"],
        "properties": {"code": {"type": "integer"}, "type": TEXT, "message": TEXT, "error": TEXT},
        "additionalProperties": False,
    },
    "OpenAIEmbeddings": {
        "type": "object",
        "required": ["object", "data", "model", "usage"],
        "properties": {
            "object": {"const": "list"},
            "model": TEXT,
            "data": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["object", "index", "embedding"],
                    "properties": {
                        "object": {"const": "embedding"},
                        "index": COUNT,
                        "embedding": {
                            "description": "base64 holds float32 in little-endian order, or bytes of signs",
                            "type": ["array", "string"],
                        },
                    },
                },
            },
            "usage": {
                "type": "object",
                "properties": {"prompt_tokens": COUNT, "total_tokens": COUNT},
            },
        },
    },
    "Tokens": {
        "description": "The tokens of each text.",
        "type": "array",
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "text", "special", "start", "stop"],
                "properties": {
                    "id": COUNT,
                    "text": TEXT,
                    "special": {"type": "boolean"},
                    "start": {"type": ["integer", "null"]},
                    "stop": {"type": ["integer", "null"]},
                },
                "additionalProperties": False,
            },
        },
    },
    "BundleRequest": {
        "description": "A request to a bundle: the request to one of its models, with the model's name, or to several, "
        "with their parameters by model; or a query with documents for its chain.",
        "type": "object",
        "properties": {
            "model": TEXT,
            "models": {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True},
            "candidates": {"type": "integer", "minimum": 1, "default": 20},
        },
        "oneOf": [
            {"required": ["model"]},
            {"required": ["models"]},
            {"required": ["query"], "not": {"anyOf": [{"required": ["model"]}, {"required": ["models"]}]}},
        ],
    },
    "BundleResponse": {
        "description": "The answers of several models of a bundle by name; of a model that cannot answer, the error. "
        "Of a chain, what its last model answers to a query with documents.",
        "type": ["object", "array"],
    },
    "OpenInferenceTensors": {
        "description": "Open Inference Protocol; see docs/reference/requests.md for the names of tensors.",
        "type": "object",
        "required": ["outputs"],
        "properties": {
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "shape", "datatype"],
                    "properties": {"name": TEXT, "datatype": TEXT, "shape": {"type": "array", "items": COUNT}},
                },
            }
        },
    },
}
ENTITY = {
    "type": "object",
    "required": ["score", "word", "start", "end"],
    "properties": {"entity": LABEL, "entity_group": TEXT, "index": COUNT, "score": NUMBER, "word": TEXT},
}
SPAN = {
    "type": "object",
    "required": ["answer", "score", "start", "end"],
    "properties": {"answer": TEXT, "score": NUMBER, "start": COUNT, "end": COUNT},
    "additionalProperties": False,
}
RANKED = {
    "description": "A document by its place in the request, with its score.",
    "type": "object",
    "required": ["index", "score"],
    "properties": {"index": COUNT, "score": NUMBER, "text": TEXT},
}
RANKING = {
    "description": "The documents, best first.",
    "type": "object",
    "required": ["model", "results"],
    "properties": {
        "model": TEXT,
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["index", "relevance_score"],
                "properties": {
                    "index": COUNT,
                    "relevance_score": NUMBER,
                    "document": {"type": "object", "properties": {"text": TEXT}},
                },
            },
        },
        "usage": {"type": "object", "properties": {"total_tokens": COUNT}},
    },
}
ANSWERS: dict[str, Schema] = {
    "sentence-embedding": {"description": "The embedding.", "type": "array", "items": NUMBER},
    "sparse-embedding": {
        "description": "The weights that are not 0; with format=sparsevec, as a text for pgvector.",
        "anyOf": [
            {"type": "array", "items": _object({"index": COUNT, "value": NUMBER}, {})},
            {"type": "array", "items": _object({"token": {"type": ["string", "null"]}, "value": NUMBER}, {})},
            TEXT,
        ],
    },
    "multi-vector-embedding": {
        "description": "A vector for each token; with encoding=base64, their bytes. Of a query with a document, the "
        "score.",
        "anyOf": [
            {"type": "array", "items": {"type": "array", "items": NUMBER}},
            _object({"shape": {"type": "array", "items": COUNT}, "data": TEXT}, {}),
            NUMBER,
        ],
    },
    "text-classification": {
        "description": "Labels; of a model with several heads an object with the labels of each.",
        "anyOf": [LABELS, {"type": "object", "additionalProperties": LABELS}],
    },
    "zero-shot-classification": LABELS,
    "token-classification": {
        "description": "Entities or tokens, with their place in the text.",
        "type": "array",
        "items": ENTITY,
    },
    "tensors": {
        "description": "The outputs of the model by name, each a list of numbers or of lists.",
        "type": "object",
        "additionalProperties": {"type": "array"},
    },
    "reranking": {"description": "The score of the document; higher is better.", "type": "number"},
    "question-answering": {"description": "An answer, or several.", "anyOf": [SPAN, {"type": "array", "items": SPAN}]},
}


def openapi() -> Schema:
    """The whole document."""
    schemas = dict(SHARED)
    for name, task in TASKS.items():
        title = camel(name)
        schemas[f"{title}Instance"] = _instance(task)
        schemas[f"{title}Parameters"] = _parameters(task)
        schemas[f"{title}Request"] = _request(task, title)
        schemas[f"{title}Answer"] = ANSWERS[name]
        schemas[f"{title}Response"] = _response(task, title)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Marina",
            "version": "0.1.0",
            "description": "Predictions of the models that Marina has packed. What a model takes and answers "
            "depends on its task.",
        },
        "servers": [{"url": "http://127.0.0.1:8080"}],
        "security": [{"token": []}],
        "paths": {
            "/predictions/{name}": {"post": _operation("predict", "Send texts to a model.")},
            "/v1/models/{name}:predict": {"post": _operation("predictKServe", "The same, under KServe's URL (v1).")},
            "/v2/models/{name}/infer": {
                "post": _operation("infer", "The same, under the Open Inference Protocol's URL.")
            },
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
    }


def camel(name: str) -> str:
    """A task's name as schemas have it: TextClassification."""
    return "".join(part.capitalize() for part in name.split("-"))


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _fields(task: Task) -> tuple[Schema, Schema]:
    """The fields that an instance needs, and those that it may have."""
    fields = task.fields
    if not fields.second_required:
        return {fields.first: TEXT}, {fields.second: {"type": ["string", "null"]}} if fields.second else {}
    text = TEXT if fields.empty else {**TEXT, "minLength": 1}
    return {fields.first: text, str(fields.second): text}, {}


def _instance(task: Task) -> Schema:
    document = _object(*_fields(task))
    pair = [_object(dict.fromkeys(task.fields.pair_names, TEXT), {})] if task.fields.pair_names else []
    return document if task.fields.second_required else {"anyOf": [TEXT, document, *pair]}


def _parameters(task: Task) -> Schema:
    properties = {
        name: {**parameter.schema, "default": parameter.default, "description": parameter.expected}
        for name, parameter in task.parameters.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _request(task: Task, title: str) -> Schema:
    """The bodies in JSON, of every protocol but tensors."""
    instance = _ref(f"{title}Instance")
    parameters = {"parameters": {"anyOf": [_ref(f"{title}Parameters"), {"type": "null"}]}}
    several = {"type": "array", "items": instance, "minItems": 1}
    beside = _parameters(task)["properties"]
    none = {"parameters": {"type": ["object", "null"], "maxProperties": 0}}

    inputs = {"inputs": {"anyOf": [instance, several]}}
    tokenize = {"tokenize": {"anyOf": [instance, several]}}
    special: Schema = {"add_special_tokens": {"type": "boolean", "default": True}, "model": {}}
    required, others = _fields(task)
    bodies = [
        _object(inputs, parameters),
        _object(inputs, {**beside, **none}),
        _object(required, {**others, **parameters}),
        _object({"instances": several}, parameters),
        _object(tokenize, {**special, **parameters}),
        _object(tokenize, {**special, **beside, **none}),
    ]
    if task.vectors:
        texts = {"type": "array", "items": TEXT, "minItems": 1}
        compared = _object({"source_sentence": TEXT, "sentences": texts}, {})
        encoding = {"encoding_format": {"enum": ["float", "base64"], "default": "float"}}
        bodies += [
            _object({"inputs": compared}, parameters),
            _object({"input": {"anyOf": [TEXT, texts]}}, {"model": {}, "user": {}, **encoding, **beside}),
        ]
    if task.ranks:
        query = {"query": TEXT}
        beside = {
            "top_n": {"type": ["integer", "null"], "minimum": 1},
            "raw_scores": {"type": "boolean", "default": False},
        }
        ignored: Schema = {"model": {}, "truncate": {}, "truncation_direction": {}}
        shown: Schema = {"type": "boolean", "default": False}
        texts = {"type": "array", "items": TEXT, "minItems": 1}
        documents = {"type": "array", "items": {"anyOf": [TEXT, _object({"text": TEXT}, {})]}, "minItems": 1}
        bodies += [
            _object({**query, "texts": texts}, {**beside, **ignored, "return_text": shown}),
            _object({**query, "documents": documents}, {**beside, **ignored, "return_documents": shown}),
        ]
    return {"anyOf": bodies}


def _response(task: Task, title: str) -> Schema:
    answer = _ref(f"{title}Answer")
    answers = {"type": "array", "items": answer}
    predictions = {"type": "object", "required": ["predictions"], "properties": {"predictions": answers}}
    shapes = [answer, answers, predictions, _ref("OpenInferenceTensors"), _ref("Tokens")]
    if task.vectors:
        shapes += [{"description": "Cosines.", "type": "array", "items": NUMBER}, _ref("OpenAIEmbeddings")]
    if task.ranks:
        shapes += [{"type": "array", "items": RANKED}, RANKING]
    return {"anyOf": shapes}


def _operation(name: str, summary: str) -> Schema:
    titles = [camel(task) for task in TASKS]
    plain = "a text, for tasks whose instance is one text"
    error = {"application/json": {"schema": {"anyOf": [_ref("Error"), _ref("ServerError")]}}}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": TEXT}],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"anyOf": [_ref(f"{title}Request") for title in [*titles, "Bundle"]]}},
                "text/plain": {"schema": {**TEXT, "description": plain}},
            },
        },
        "responses": {
            "200": {
                "description": "The answers, in the order of the instances.",
                "headers": {
                    "X-Request-Id": {"description": "TorchServe's id of the request.", "schema": TEXT},
                    "X-Marina-Truncated": {
                        "description": "Numbers of the instances that were cut to fit.",
                        "schema": TEXT,
                    },
                    "Server-Timing": {
                        "description": "Where the time went, with serving.server_timing.",
                        "schema": TEXT,
                    },
                },
                "content": {
                    "application/json": {
                        "schema": {"anyOf": [_ref(f"{title}Response") for title in [*titles, "Bundle"]]}
                    }
                },
            },
            "4XX": {"description": "The request cannot be answered.", "content": error},
            "500": {"description": "The worker failed.", "content": error},
            "503": {
                "description": "The queue is full, or no worker is READY.",
                "content": error,
            },
        },
    }
