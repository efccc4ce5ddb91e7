"""Request bodies: JSON with texts from a file, from a histogram of lengths, or from the built-in mix."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.request.schema import Fields
from handlers.worker.values import Instance
from marina.bench.load.mix import mixed_texts, random_text
from marina.bench.load.profile import Load
from marina.errors import SpecError
from marina.project import Project
from marina.shapes.lengths import read_lengths
from marina.spec import Spec
from marina.spec.texts import read_texts

MIX, MIX_NAME = "mix", "built-in mix"
# for question-answering models, if texts are generated
QUESTION = "what did they say about the first day"
BODIES = 4096  # maximum; a server that cached answers would still receive every body


class Payload(NamedTuple):
    """JSON bodies, the number of instances in each, and the source of their texts."""

    bodies: list[bytes]
    instances: int
    source: str


class LoadCase(NamedTuple):
    """How requests are sent, and what they contain."""

    load: Load
    payload: Payload


def texts_of(spec: Spec, project: Project) -> str:
    """The file of a spec's examples, or the built-in mix if the spec has none."""
    return str(project.root / spec.examples) if spec.examples else MIX


def read_payload(source: str, fields: Fields, instances: int) -> Payload:
    """Make the request bodies for a model.

    Args:
        source: "mix", a .csv or .jsonl file with the task's fields, or a .json histogram (number of tokens to count).
        fields: fields of the model's task.
        instances: number of instances per request.

    Raises:
        SpecError: the file cannot be read.
    """
    documents = documents_of(read_instances(source, fields), fields)
    return Payload(bodies_of(documents, instances), instances, MIX_NAME if source == MIX else Path(source).name)


def documents_of(instances: list[Instance], fields: Fields) -> list[Any]:
    """Instances in the format of requests."""
    return [_document(instance, fields) for instance in instances]


def payload_for(model: str, payload: Payload) -> Payload:
    """The same requests, each naming a model of a bundle."""
    return payload._replace(bodies=[body_for(model, body) for body in payload.bodies])


def body_for(model: str, body: bytes) -> bytes:
    """The same body, naming a model of a bundle."""
    return json.dumps({"model": model, **json.loads(body)}).encode()


def read_instances(source: str, fields: Fields) -> list[Instance]:
    """The instances of a source, in the format of `read_payload`."""
    path = Path(source)
    if source == MIX:
        return [_generated_instance(text, fields) for text in mixed_texts()]
    if path.suffix == ".json":
        rng = random.Random(0)
        lengths = read_lengths(path, fields, lambda _: [])
        rng.shuffle(lengths)
        return [_generated_instance(random_text(max(3, tokens), rng), fields) for tokens in lengths[:BODIES]]
    if path.suffix in (".csv", ".jsonl"):
        return read_texts(path, fields, source)
    raise SpecError(f"{source}: texts are read from .csv and .jsonl, lengths from .json; or say {MIX}")


def bodies_of(documents: list[Any], instances: int) -> list[bytes]:
    """Bodies with `instances` documents each, in order; the last body is filled up with the first documents."""
    if instances == 1:
        return [json.dumps({"inputs": document}).encode() for document in documents[:BODIES]]
    sent_documents = documents[: BODIES * instances]
    sent_documents += [documents[index % len(documents)] for index in range(-len(sent_documents) % instances)]
    return [
        json.dumps({"inputs": sent_documents[start : start + instances]}).encode()
        for start in range(0, len(sent_documents), instances)
    ]


def _generated_instance(text: str, fields: Fields) -> Instance:
    if not fields.second_required:
        return Instance(text)
    return Instance(QUESTION, text, tuple(text for _ in fields.others))


def _document(instance: Instance, fields: Fields) -> Any:
    """An instance in the format of requests."""
    if instance.text_pair is None:
        return instance.text
    return dict(zip(fields.names, instance.texts, strict=True))
