"""Similarity of texts: `{"inputs": {"source_sentence": ..., "sentences": [...]}}`, like Hugging Face's hosted API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import check_fields, read_parameters
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json

NAME = "similarity"
FIELDS = {"source_sentence", "sentences"}


def recognises(value: Json, schema: Schema) -> bool:
    """Whether a JSON body requests a comparison of texts."""
    inputs = value.get("inputs") if isinstance(value, dict) else None
    return schema.vectors and isinstance(inputs, dict) and bool(set(inputs) & FIELDS)


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read the source sentence, and then the sentences to compare with it."""
    value = body.value
    inputs = value["inputs"]
    check_fields(value, {"inputs", "parameters"})
    check_fields(inputs, FIELDS)
    sentences = inputs.get("sentences")
    if not isinstance(sentences, list) or "source_sentence" not in inputs:
        raise RequestError("InvalidBody", '"inputs" needs "source_sentence", a text, and "sentences", a list of texts')
    check_count(len(sentences), "sentences", limits)
    sentences_by_place = [("inputs.source_sentence", inputs["source_sentence"])]
    sentences_by_place += [(f"inputs.sentences[{number}]", sentence) for number, sentence in enumerate(sentences)]
    instances = tuple(read_instance(sentence, where, schema.fields, limits) for where, sentence in sentences_by_place)
    parameters = read_parameters(value.get("parameters"), schema.parameters, defaults)
    parameters["precision"] = "float32"  # the embeddings are not in the answer
    return Request(instances, parameters, NAME, {"place": "text {}, the source sentence being 0: "})


def write(_: Request, answers: Sequence[Answered], __: Mapping[str, str]) -> Json:
    """The cosine similarity between the source sentence's embedding and the embedding of each sentence."""
    source, *others = (np.asarray(answered.answer, dtype=np.float64) for answered in answers)
    return [float(source @ other / max(np.linalg.norm(source) * np.linalg.norm(other), 1e-12)) for other in others]
