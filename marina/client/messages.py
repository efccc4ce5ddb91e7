"""The two messages of TorchServe's `Predictions` call, as defined in its inference.proto.

They are built at run time, so that neither generated code nor a compiler is needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

PACKAGE = "org.pytorch.serve.grpc.inference"


@cache
def prediction_messages() -> tuple[Any, Any]:
    """The classes PredictionsRequest (model_name, input) and PredictionResponse (prediction)."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="marina_inference.proto", package=PACKAGE, syntax="proto3")
    request = file.message_type.add(name="PredictionsRequest")
    request.field.add(name="model_name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    request.field.add(
        name="input",
        number=3,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=f".{PACKAGE}.PredictionsRequest.InputEntry",
    )
    entry = request.nested_type.add(name="InputEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    response = file.message_type.add(name="PredictionResponse")
    response.field.add(name="prediction", number=1, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    # a separate pool, because a program may have generated code for the same names
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("PredictionsRequest", "PredictionResponse")
    classes = [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names]
    request_class, response_class = classes
    return request_class, response_class
