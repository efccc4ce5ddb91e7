"""The parts of the OpenAPI document that no task decides, and the answer of each task."""

from __future__ import annotations

from typing import Any

from handlers.worker.errors import KINDS

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
PLACE: Schema = {"type": ["integer", "null"]}  # of a token in its text; a special token has none
LABEL: Schema = {"type": ["string", "number", "boolean", "null"]}
LABELS = {"$ref": "#/components/schemas/Labels"}


def object_of(required: Schema, others: Schema) -> Schema:
    """An object with these fields, and no others."""
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
        "items": object_of({"label": LABEL, "score": NUMBER}, {}),
    },
    "Error": {
        "description": "Why a request was refused. Every type is explained in docs/reference/errors.md.",
        **object_of({"code": {"type": "integer"}, "type": {"enum": sorted(KINDS)}, "error": TEXT, "fix": TEXT}, {}),
    },
    "ServerError": {
        "description": "What the host refuses itself: a wrong token, or a model that is not served.",
        **object_of({"code": {"type": "integer"}, "type": TEXT, "message": TEXT}, {"error": TEXT}),
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
            "items": object_of(
                {"id": COUNT, "text": TEXT, "special": {"type": "boolean"}, "start": PLACE, "stop": PLACE}, {}
            ),
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
SPAN = object_of({"answer": TEXT, "score": NUMBER, "start": COUNT, "end": COUNT}, {})
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
            {"type": "array", "items": object_of({"index": COUNT, "value": NUMBER}, {})},
            {"type": "array", "items": object_of({"token": {"type": ["string", "null"]}, "value": NUMBER}, {})},
            TEXT,
        ],
    },
    "multi-vector-embedding": {
        "description": "A vector for each token; with encoding=base64, their bytes. Of a query with a document, the "
        "score.",
        "anyOf": [
            {"type": "array", "items": {"type": "array", "items": NUMBER}},
            object_of({"shape": {"type": "array", "items": COUNT}, "data": TEXT}, {}),
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
