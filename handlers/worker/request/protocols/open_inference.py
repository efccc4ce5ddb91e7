"""The Open Inference Protocol: named tensors in, named tensors out (KServe v2, Triton).

Texts are BYTES tensors, either in the JSON or as bytes after it (Triton's binary extension: each element
is its length in four bytes, little endian, followed by the element itself). Responses are JSON:

    sentence-embedding           embedding FP32, INT8 or UINT8 (instances, width)
    text-classification          label BYTES and score FP32 (instances, labels), best first
    text-classification, heads   HEAD_label and HEAD_score for each head
    reranking                    score FP32 (instances)
    tensors                      the outputs FP32 (instances, ...) by their names, if all have the same sizes
    other tasks                  answer BYTES (instances), each the JSON of one answer
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import label_text
from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import check_fields, read_parameters
from handlers.worker.request.schema import Schema
from handlers.worker.request.text import check_text, quote, type_name
from handlers.worker.values import Instance, Json

NAME = "open-inference"
DATATYPES = {"float32": "FP32", "int8": "INT8", "uint8": "UINT8"}  # by numpy's names
# parameters of the protocol, not of tasks: the form in which a client expects its tensors
_PROTOCOL_PARAMETERS = {"binary_data_output", "sequence_id", "sequence_start", "sequence_end", "priority", "timeout"}


def recognises(value: Json, _: Schema) -> bool:
    """Whether a JSON body has this protocol: its inputs are objects with a datatype or a shape."""
    inputs = value.get("inputs") if isinstance(value, dict) else None
    if not isinstance(inputs, list) or not inputs or not isinstance(inputs[0], dict):
        return False
    return "name" in inputs[0] and bool({"datatype", "shape", "data"} & set(inputs[0]))


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read a body with tensors, some of which may be bytes after its JSON."""
    value, tail = body.value, memoryview(body.tail)
    check_fields(value, {"id", "inputs", "outputs", "parameters"})
    tensors: dict[str, list[str]] = {}
    offset = 0
    for number, tensor in enumerate(value["inputs"]):
        name, texts, size = _read_tensor(tensor, f"inputs[{number}]", tail[offset:], limits)
        if name in tensors:
            raise RequestError("InvalidBody", f"there are two inputs of the name {quote(name)}")
        tensors[name] = texts
        offset += size
    if offset < len(tail):
        raise RequestError("InvalidBody", f"{len(tail) - offset} bytes behind the JSON belong to no tensor")
    instances = _instances(tensors, schema, limits)
    parameters = value.get("parameters")
    task_parameters = (
        {name: item for name, item in parameters.items() if name not in _PROTOCOL_PARAMETERS}
        if isinstance(parameters, dict)
        else parameters
    )
    identity = value.get("id")
    if identity is not None:
        check_text(identity, "id", limits.characters)
    details = {"id": identity, "outputs": _output_names(value.get("outputs")), "place": "inputs, element {}: "}
    return Request(instances, read_parameters(task_parameters, schema.parameters, defaults), NAME, details)


def write(request: Request, answers: Sequence[Answered], identity: Mapping[str, str]) -> Json:
    """The requested outputs, or all of them.

    Raises:
        RequestError: a requested output does not exist.
    """
    tensors = {tensor["name"]: tensor for tensor in _tensors([answered.answer for answered in answers])}
    output_names = request.details["outputs"] or list(tensors)
    for name in output_names:
        if name not in tensors:
            raise RequestError("InvalidBody", f"there is no output {quote(name)}; there are: {', '.join(tensors)}")
    document = {"model_name": identity["name"], "model_version": identity["version"]}
    if request.details["id"] is not None:
        document["id"] = request.details["id"]
    truncated = [number for number, answered in enumerate(answers) if answered.truncated]
    parameters = {"parameters": {"truncated": json.dumps(truncated)}} if truncated else {}
    return {**document, **parameters, "outputs": [tensors[name] for name in output_names]}


def _read_tensor(tensor: Json, where: str, tail: memoryview, limits: RequestLimits) -> tuple[str, list[str], int]:
    """A tensor's name, its texts, and how many bytes of the tail belong to it."""
    if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
        raise RequestError("InvalidBody", f'{where} must be a tensor with "name", "shape", "datatype" and "data"')
    if tensor.get("datatype") != "BYTES":
        raise RequestError("InvalidBody", f'{where}: texts come in a tensor of datatype "BYTES"')
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise RequestError("InvalidBody", f'{where}: "shape" must be a list of whole numbers')
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        texts = _flatten(tensor.get("data"), where)
        tail_bytes = 0
    else:
        if type(size) is not int or not 0 <= size <= len(tail):
            raise RequestError("InvalidBody", f"{where}: binary_data_size is not the size of what follows the JSON")
        texts, tail_bytes = _read_binary(tail[:size], where, limits), size
    if shape not in ([len(texts)], [len(texts), 1]):
        raise RequestError("InvalidBody", f'{where}: "shape" {json.dumps(shape)[:40]} does not fit {len(texts)} texts')
    return tensor["name"], texts, tail_bytes


def _flatten(data: Json, where: str) -> list[str]:
    if not isinstance(data, list):
        raise RequestError("InvalidBody", f'{where}: "data" must be a list')
    flat = [item for part in data for item in (part if isinstance(part, list) else [part])]
    for number, item in enumerate(flat):
        if not isinstance(item, str):
            raise RequestError("InvalidInstance", f"{where}.data[{number}] must be a text, not {type_name(item)}")
    return flat


def _read_binary(data: memoryview, where: str, limits: RequestLimits) -> list[str]:
    texts: list[str] = []
    end = 0
    while end < len(data):
        check_count(len(texts) + 1, where, limits)
        start = end + 4
        length = struct.unpack_from("<I", data, end)[0] if start <= len(data) else len(data)
        end = start + length
        if end > len(data):
            raise RequestError("InvalidBody", f"{where}: element {len(texts)} is longer than the tensor")
        try:
            texts.append(str(data[start:end], "utf-8"))
        except UnicodeDecodeError:
            raise RequestError("InvalidEncoding", f"{where}: element {len(texts)} is not UTF-8") from None
    return texts


def _instances(tensors: dict[str, list[str]], schema: Schema, limits: RequestLimits) -> tuple[Instance, ...]:
    fields = schema.fields
    if len(tensors) == 1 and fields.second is None:
        # a single tensor is the text, whatever its name
        tensors = {fields.first: next(iter(tensors.values()))}
    unknown = sorted(set(tensors) - set(fields.names))
    if unknown or fields.first not in tensors:
        expected = " and ".join(fields.names)
        raise RequestError("InvalidBody", f"the inputs must be named {expected}, not {quote(', '.join(tensors))}")
    counts = {name: len(texts) for name, texts in tensors.items()}
    if len(set(counts.values())) > 1:
        raise RequestError("InvalidBody", f"the inputs hold different numbers of texts: {json.dumps(counts)}")
    count = counts[fields.first]
    check_count(count, "inputs", limits)
    items = ({name: texts[i] for name, texts in tensors.items()} for i in range(count))
    return tuple(read_instance(item, f"inputs, element {i}", fields, limits) for i, item in enumerate(items))


def _output_names(outputs: Json) -> list[str]:
    if outputs is None:
        return []
    if not isinstance(outputs, list) or not all(
        isinstance(output, dict) and isinstance(output.get("name"), str) for output in outputs
    ):
        raise RequestError("InvalidBody", '"outputs" must be a list of objects with "name"')
    for output in outputs:
        parameters = output.get("parameters")
        if isinstance(parameters, dict) and parameters.get("classification"):
            raise RequestError(
                "InvalidBody",
                f"the output {quote(output['name'])} has no classes to count (class_count, classification): labels "
                "come sorted by their scores, and the parameter top_k says how many",
            )
    return [output["name"] for output in outputs]


def _tensors(answers: list[Json]) -> list[Json]:
    """The answers as tensors; see the table in the module docstring."""
    first = answers[0]
    if isinstance(first, float):
        return [{"name": "score", "datatype": "FP32", "shape": [len(answers)], "data": answers}]
    if isinstance(first, np.ndarray):
        return [_array_tensor("embedding", np.stack(answers))]
    if _is_ranking(first):
        return _ranking("", answers)
    if isinstance(first, dict) and all(_is_ranking(value) for value in first.values()):
        heads = [_ranking(f"{head}_", [answer[head] for answer in answers]) for head in first]
        return [tensor for tensors in heads for tensor in tensors]
    if isinstance(first, dict) and (named_tensors := _named_tensors(answers)):
        return named_tensors
    texts = [json.dumps(answer, ensure_ascii=False, separators=(",", ":")) for answer in answers]
    return [{"name": "answer", "datatype": "BYTES", "shape": [len(texts)], "data": texts}]


def _named_tensors(answers: list[Json]) -> list[Json]:
    """Lists of numbers by name as tensors; empty if they are none, or have different sizes."""
    tensors = []
    for name, value in answers[0].items():
        if not isinstance(value, (list, float)):
            return []
        try:
            values = np.array([answer[name] for answer in answers], dtype=np.float32)
        except (ValueError, TypeError):
            return []
        tensors.append(_array_tensor(name, values))
    return tensors


def _is_ranking(answer: Json) -> bool:
    return (
        isinstance(answer, list)
        and bool(answer)
        and isinstance(answer[0], dict)
        and set(answer[0]) == {"label", "score"}
    )


def _ranking(prefix: str, answers: list[Json]) -> list[Json]:
    labels = [[label_text(entry["label"]) for entry in answer] for answer in answers]
    scores = [[entry["score"] for entry in answer] for answer in answers]
    return [_tensor(f"{prefix}label", "BYTES", labels), _tensor(f"{prefix}score", "FP32", scores)]


def _array_tensor(name: str, values: npt.NDArray[Any]) -> Json:
    return {"name": name, "datatype": DATATYPES[values.dtype.name], "shape": list(values.shape), "data": values.ravel()}


def _tensor(name: str, datatype: str, rows: list[list[Json]]) -> Json:
    flat = [value for row in rows for value in row]
    return {"name": name, "datatype": datatype, "shape": [len(rows), len(rows[0])], "data": flat}
