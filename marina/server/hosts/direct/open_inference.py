"""The messages of the Open Inference Protocol over gRPC (KServe v2, Triton), from and to those over HTTP.

https://github.com/open-inference/open-inference-protocol/blob/main/specification/protocol/inference_grpc.md
"""

from __future__ import annotations

import struct
from typing import Any

import orjson

from handlers.worker.request.body import HEADER_LENGTH
from handlers.worker.values import Json
from marina.client.messages import Messages

INFER: Messages = {
    "InferParameter": {
        "bool_param": (1, "choice bool"),
        "int64_param": (2, "choice int64"),
        "string_param": (3, "choice string"),
        "double_param": (4, "choice double"),
        "uint64_param": (5, "choice uint64"),
    },
    "InferTensorContents": {
        "bool_contents": (1, "repeated bool"),
        "int_contents": (2, "repeated int32"),
        "int64_contents": (3, "repeated int64"),
        "uint_contents": (4, "repeated uint32"),
        "uint64_contents": (5, "repeated uint64"),
        "fp32_contents": (6, "repeated float"),
        "fp64_contents": (7, "repeated double"),
        "bytes_contents": (8, "repeated bytes"),
    },
    "Tensor": {
        "name": (1, "string"),
        "datatype": (2, "string"),
        "shape": (3, "repeated int64"),
        "parameters": (4, "map InferParameter"),
        "contents": (5, "InferTensorContents"),
    },
    "RequestedOutput": {"name": (1, "string"), "parameters": (2, "map InferParameter")},
    "ModelInferRequest": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "map InferParameter"),
        "inputs": (5, "repeated Tensor"),
        "outputs": (6, "repeated RequestedOutput"),
        "raw_input_contents": (7, "repeated bytes"),
    },
    "ModelInferResponse": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "map InferParameter"),
        "outputs": (5, "repeated Tensor"),
        "raw_output_contents": (6, "repeated bytes"),
    },
    "Empty": {},
    "Named": {"name": (1, "string"), "version": (2, "string")},
    "Live": {"live": (1, "bool")},
    "Ready": {"ready": (1, "bool")},
    "ServerMetadata": {"name": (1, "string"), "version": (2, "string"), "extensions": (3, "repeated string")},
    "ModelMetadata": {
        "name": (1, "string"),
        "versions": (2, "repeated string"),
        "platform": (3, "string"),
        "inputs": (4, "repeated Tensor"),
        "outputs": (5, "repeated Tensor"),
    },
}

# of the datatypes in answers: the field for a tensor's contents, and the format of a number
CONTENTS = {"BYTES": "bytes_contents", "FP32": "fp32_contents", "INT8": "int_contents", "UINT8": "uint_contents"}
FORMATS = {"FP32": "f", "INT8": "b", "UINT8": "B"}


def infer_body(request: Any) -> tuple[dict[str, str], bytes]:
    """Headers and the body of POST /v2/models/NAME/infer for a ModelInferRequest.

    The body is a JSON document with the tensors behind it, as Triton's clients send them over HTTP: the worker reads
    them.

    Raises:
        ValueError: there are raw contents, but not of every input.
    """
    tensors = list(request.raw_input_contents) or [
        _joined(list(t.contents.bytes_contents), "BYTES") for t in request.inputs
    ]
    if len(tensors) != len(request.inputs):
        raise ValueError(f"there are {len(request.inputs)} inputs, and raw_input_contents for {len(tensors)}")
    inputs = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            "parameters": {"binary_data_size": len(content)},
        }
        for tensor, content in zip(request.inputs, tensors, strict=True)
    ]
    document: dict[str, Json] = {"inputs": inputs, "parameters": _parameters(request)}
    if request.id:
        document["id"] = request.id
    if request.outputs:
        document["outputs"] = [{"name": output.name, "parameters": _parameters(output)} for output in request.outputs]
    head = orjson.dumps(document)
    return {HEADER_LENGTH: str(len(head))}, b"".join([head, *tensors])


def infer_response(document: dict[str, Any], response: Any, raw: bool) -> Any:
    """Fill a ModelInferResponse from the answer to POST /v2/models/NAME/infer.

    Args:
        document: the answer.
        response: the message.
        raw: whether tensors are raw bytes, as clients read them that send raw bytes.
    """
    for name in ("model_name", "model_version", "id"):
        setattr(response, name, document.get(name, ""))
    for name, value in document.get("parameters", {}).items():
        response.parameters[name].string_param = value
    for output in document["outputs"]:
        tensor = response.outputs.add(name=output["name"], datatype=output["datatype"], shape=output["shape"])
        data = [text.encode() for text in output["data"]] if output["datatype"] == "BYTES" else output["data"]
        if raw:
            response.raw_output_contents.append(_joined(data, output["datatype"]))
        else:
            getattr(tensor.contents, CONTENTS[output["datatype"]]).extend(data)
    return response


def _parameters(message: Any) -> dict[str, Json]:
    return {
        name: getattr(value, kind)
        for name, value in message.parameters.items()
        if (kind := value.WhichOneof("choice")) is not None
    }


def _joined(data: list[Any], datatype: str) -> bytes:
    """A tensor in little-endian order; of texts, each is behind its length in 4 bytes."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(element)) + element for element in data)
    return struct.pack(f"<{len(data)}{FORMATS[datatype]}", *data)
