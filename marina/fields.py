"""Sections of YAML files: fields that are validated by a pydantic model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from marina.errors import SpecError

Model = TypeVar("Model", bound=BaseModel)
# the values of fields, by the names in pydantic's types of errors
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a section of fields",
    "model": "a section of fields",
}


class Section(BaseModel):
    """Base class of sections: unknown fields are refused, and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, use_attribute_docstrings=True)


class _Number:
    """A number of a YAML file, whose text is the file's: 1.10 and not 1.1."""

    text: str

    def __str__(self) -> str:
        return self.text


class _Int(_Number, int): ...


class _Float(_Number, float): ...


class _Loader(yaml.SafeLoader):
    """Reads numbers as YAML does, and keeps their texts for the fields that are texts."""

    def construct_yaml_int(self, node: Any) -> _Int:
        number = _Int(super().construct_yaml_int(node))
        number.text = node.value
        return number

    def construct_yaml_float(self, node: Any) -> _Float:
        number = _Float(super().construct_yaml_float(node))
        number.text = node.value
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def load_yaml(source: str | IO[str]) -> Any:
    """Read YAML for a `Section`: its fields that are texts keep numbers as written; YAMLError if it is not YAML."""
    return yaml.load(source, _Loader)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, _Int):
        return int(value)
    return float(value) if isinstance(value, _Float) else value


# the type of fields that take any values by name: what `load_yaml` reads, with usual numbers
AnyFields = Annotated[dict[str, Any], BeforeValidator(_plain)]


def read_fields(path: Path, model: type[Model]) -> Model:
    """Read a YAML file into a model; SpecError names the file and the invalid field."""
    try:
        return model.model_validate(load_yaml(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise SpecError(f"{path}: {where}: {fault_message(first)}") from None


def fault_message(fault: Mapping[str, object]) -> str:
    """Pydantic's message for an invalid value, in the words of a spec."""
    kind = str(fault["type"]).removesuffix("_parsing").removesuffix("_type").removesuffix("_from_float")
    if kind in KINDS:
        return f"must be {KINDS[kind]}"
    message = str(fault["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    return message.replace("a valid ", "a ")


def similar_field(model: type[BaseModel], unknown: Sequence[str | int]) -> str | None:
    """The field that the user probably meant, as a dotted path with its sections; None if no name is similar.

    Args:
        model: model of the file.
        unknown: sections and name of a field that the model does not have.
    """
    *sections, name = map(str, unknown)
    paths = list(_paths(model))
    for candidates in ([path for path in paths if path[:-1] == sections], paths):
        matches = get_close_matches(name, [path[-1] for path in candidates], n=1, cutoff=0.7)
        if matches:
            return ".".join(next(path for path in candidates if path[-1] == matches[0]))
    return None


def _paths(model: type[BaseModel]) -> Iterator[list[str]]:
    for name, field in model.model_fields.items():
        yield [name]
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from ([name, *path] for path in _paths(field.annotation))
