"""Writes fields into the files of specs, and leaves the rest of the files unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from handlers.worker.values import Shape
from marina.spec import read_spec


def write_shapes(path: Path, shapes: Sequence[Shape]) -> None:
    """Replace the shapes in a spec's file, completely or not at all.

    Raises:
        SpecError: the spec would become invalid.
    """
    write_fields({path: {"shapes": {"exact": [str(shape) for shape in shapes]}}})


def write_fields(changes: Mapping[Path, Mapping[str, object]]) -> None:
    """Replace fields in the files of specs: all of them, or none if a spec would become invalid.

    Args:
        changes: for each file its fields by name. A field stands where the old one was, or at the end.

    Raises:
        SpecError: a spec would become invalid.
    """
    partials = {path: path.with_name(f".{path.name}.partial") / path.name for path in changes}
    try:
        for path, partial in partials.items():
            partial.parent.mkdir(exist_ok=True)
            partial.write_text(_with_fields(path.read_text(encoding="utf-8"), changes[path]), encoding="utf-8")
            read_spec(partial)
        for path, partial in partials.items():
            partial.replace(path)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
            if partial.parent.exists():
                partial.parent.rmdir()


def _with_fields(text: str, fields: Mapping[str, object]) -> str:
    text = text if text.endswith("\n") else f"{text}\n"
    for name, value in fields.items():
        style = None if isinstance(value, dict) else False  # lists in one line, without braces around all
        block = yaml.safe_dump({name: value}, default_flow_style=style, sort_keys=False, width=1000)
        # the key, and all indented lines below it, with the comments and empty lines between them
        pattern = re.compile(rf"^{name}:.*\n(?:[ \t]+.*\n|(?:[ \t]*(?:#.*)?\n)+(?=[ \t]+[^\s#]))*", re.MULTILINE)
        field = pattern.search(text)
        text = text[: field.start()] + block + text[field.end() :] if field else text + block
    return text
