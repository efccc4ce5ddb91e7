"""Reads files of texts: CSV with one column per field of a task, or JSON lines with the same fields."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from handlers.worker.request.schema import Fields
from handlers.worker.values import Instance
from marina.errors import SpecError


def read_texts(path: Path, fields: Fields, where: str) -> list[Instance]:
    """Read the instances in a file.

    Args:
        path: a .csv or .jsonl file.
        fields: fields of the task.
        where: name of the file in error messages.

    Raises:
        SpecError: the file cannot be read, lacks a field, or has no texts.
    """
    try:
        instances = [_instance(entry, fields) for entry in read_entries(path)]
    except OSError as error:
        raise SpecError(f"{where} cannot be read: {error.strerror}") from None
    except (ValueError, csv.Error) as error:
        raise SpecError(f"{where} cannot be read: {error}") from None
    except KeyError as error:
        raise SpecError(f"{where} has no field {error}; it needs {_names(fields)}") from None
    if not instances:
        raise SpecError(f"{where} holds no texts")
    return instances


def read_entries(path: Path) -> list[Any]:
    """The entries of a file, one per line or row; OSError, ValueError or csv.Error if it cannot be read."""
    # Excel writes a mark at the start of a file
    with path.open(newline="", encoding="utf-8-sig") as file:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in file if line.strip()]
        return list(csv.DictReader(file, strict=True))


def _instance(entry: Any, fields: Fields) -> Instance:
    if not isinstance(entry, dict):
        raise ValueError(f"every line must be an object with {_names(fields)}")
    text = entry[fields.first]
    second = (entry[fields.second] if fields.second_required else entry.get(fields.second)) if fields.second else None
    if not isinstance(text, str) or not isinstance(second, str | None):
        raise ValueError(f"{_names(fields)} must be texts")
    others = tuple(entry[name] for name in fields.others)
    if not all(isinstance(other, str) for other in others):
        raise ValueError(f"{_names(fields)} must be texts")
    return Instance(text, second, others)


def _names(fields: Fields) -> str:
    if fields.second is None:
        return fields.first
    return " and ".join(fields.names) + ("" if fields.second_required else " (for pairs)")
