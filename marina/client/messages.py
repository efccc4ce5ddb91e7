"""Messages of gRPC, built at run time from tables, so that neither generated code nor a compiler is needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

PACKAGE = "org.pytorch.serve.grpc.inference"
# the fields of a message with their numbers and types: "map TYPE" has texts as keys, of "choice TYPE" one has a value
Messages = Mapping[str, Mapping[str, tuple[int, str]]]
PREDICTION: Messages = {
    "PredictionsRequest": {"model_name": (1, "string"), "model_version": (2, "string"), "input": (3, "map bytes")},
    "PredictionResponse": {"prediction": (1, "bytes")},
}


@cache
def prediction_messages() -> tuple[Any, Any]:
    """The classes PredictionsRequest and PredictionResponse, as TorchServe's inference.proto defines them."""
    classes = make_messages(PACKAGE, PREDICTION)
    return classes["PredictionsRequest"], classes["PredictionResponse"]


def make_messages(package: str, messages: Messages) -> dict[str, Any]:
    """The classes of messages, by name.

    Args:
        package: of the messages.
        messages: their fields. A type is one of protobuf, or the name of another message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"marina/{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, words) in fields.items():
            *kind, type_name = words.split()
            if kind == ["map"]:
                entry_name = "".join(part.capitalize() for part in field.split("_")) + "Entry"
                entry = message.nested_type.add(name=entry_name)
                entry.options.map_entry = True
                _add(entry, package, "key", 1, "string")
                _add(entry, package, "value", 2, type_name)
                _add(message, package, field, number, f"{name}.{entry_name}", repeated=True)
                continue
            added = _add(message, package, field, number, type_name, repeated=kind == ["repeated"])
            if kind == ["choice"]:
                if not message.oneof_decl:
                    message.oneof_decl.add(name="choice")
                added.oneof_index = 0
    # a separate pool, because a program may have generated code for the same names
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    # protobuf before 4.22, which the SDK for Inf1 has, needs a factory
    get_class = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return {name: get_class(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add(message: Any, package: str, name: str, number: int, type_name: str, repeated: bool = False) -> Any:
    """Add a field to the descriptor of a message."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    constant = getattr(Field, f"TYPE_{type_name.upper()}", None)
    if constant is None:
        full_name = f".{package}.{type_name}"
        return message.field.add(name=name, number=number, label=label, type=Field.TYPE_MESSAGE, type_name=full_name)
    return message.field.add(name=name, number=number, label=label, type=constant)
