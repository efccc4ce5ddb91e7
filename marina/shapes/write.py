"""Writes shapes into a spec's file, and leaves the rest of the file unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from handlers.worker.values import Shape
from marina.spec import read_spec

# the key and all indented lines below it, including comments
_BLOCK = re.compile(r"^shapes:.*\n(?:[ \t]+.*\n|[ \t]*\n(?=[ \t]))*", re.MULTILINE)


def write_shapes(path: Path, shapes: Sequence[Shape]) -> None:
    """Replace the shapes in a spec's file, completely or not at all.

    Raises:
        SpecError: the spec would become invalid.
    """
    text = path.read_text(encoding="utf-8")
    text = text if text.endswith("\n") else f"{text}\n"
    block = f"shapes:\n  exact: [{', '.join(map(str, shapes))}]\n"
    found = _BLOCK.search(text)
    changed = text[: found.start()] + block + text[found.end() :] if found else text + block
    partial = path.with_name(f".{path.name}.partial") / path.name
    partial.parent.mkdir(exist_ok=True)
    try:
        partial.write_text(changed, encoding="utf-8")
        read_spec(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        partial.parent.rmdir()
