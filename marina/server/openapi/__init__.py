"""reference/openapi.json: the bodies of requests and answers, for tools that read OpenAPI 3.1.

Every answer of the tests is checked against it, so it holds what the worker does.

Enters: the tasks. Leaves: the document. Not known here: hosts, and the models that are served.
"""

from __future__ import annotations

from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import Task
from marina.server.openapi.schemas import ANSWERS, NUMBER, RANKED, RANKING, SHARED, TEXT, Schema, object_of


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
    document = object_of(*_fields(task))
    pair = [object_of(dict.fromkeys(task.fields.pair_names, TEXT), {})] if task.fields.pair_names else []
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
        object_of(inputs, parameters),
        object_of(inputs, {**beside, **none}),
        object_of(required, {**others, **parameters}),
        object_of({"instances": several}, parameters),
        object_of(tokenize, {**special, **parameters}),
        object_of(tokenize, {**special, **beside, **none}),
    ]
    if task.vectors:
        texts = {"type": "array", "items": TEXT, "minItems": 1}
        compared = object_of({"source_sentence": TEXT, "sentences": texts}, {})
        encoding = {"encoding_format": {"enum": ["float", "base64"], "default": "float"}}
        bodies += [
            object_of({"inputs": compared}, parameters),
            object_of({"input": {"anyOf": [TEXT, texts]}}, {"model": {}, "user": {}, **encoding, **beside}),
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
        documents = {"type": "array", "items": {"anyOf": [TEXT, object_of({"text": TEXT}, {})]}, "minItems": 1}
        bodies += [
            object_of({**query, "texts": texts}, {**beside, **ignored, "return_text": shown}),
            object_of({**query, "documents": documents}, {**beside, **ignored, "return_documents": shown}),
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
