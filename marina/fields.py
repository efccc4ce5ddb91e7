"""Sections of YAML files: fields that a pydantic model checks."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from marina.errors import SpecError

Model = TypeVar("Model", bound=BaseModel)


class Section(BaseModel):
    """Fields that cannot be misspelt or changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, use_attribute_docstrings=True)


def read_fields(path: Path, model: type[Model]) -> Model:
    """A file as the model has it; SpecError names the file, and the field that is wrong."""
    try:
        return model.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise SpecError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise SpecError(f"{path}: {where}: {first['msg']}") from None
