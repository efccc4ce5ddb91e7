"""Writes a folder whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marina.errors import DeployError

EXECUTABLE, PART = (".sh",), ".part"


@contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """A folder to write into, whose files become those of `output` when all is written; if not, nothing is left.

    An empty `output` is filled and not replaced: it may be the current folder, or where something is mounted.

    Raises:
        DeployError: `output` exists and is not an empty folder.
    """
    output = output.absolute()
    fill = output.is_dir()
    partial = (output if fill else output.parent) / f".{output.name}.partial"
    if output.exists() and not (fill and set(output.iterdir()) <= {partial}):
        raise DeployError(f"{output} exists already", "remove it, or name another folder with --output")
    output.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        yield partial
        if fill:
            for path in list(partial.iterdir()):
                path.rename(output / path.name)
        else:
            partial.rename(output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def render(files: Path, target: Path, values: Mapping[str, Any], include: Callable[[str], bool] = bool) -> None:
    """Write the files of a folder into another: a `NAME.j2` as `NAME` with values filled in, others as they are.

    A `NAME.part` is not written; templates include it.

    Args:
        files: the folder with the files.
        target: the folder to write into.
        values: for the templates of Jinja; one that a template names and is missing is an error.
        include: whether to write a file, by its path relative to `files`, without `.j2`; by default all of them.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(files),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for source in sorted(path for path in files.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = str(source.relative_to(files)).removesuffix(".j2")
        if source.suffix == PART or not include(name):
            continue
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        path.write_text(
            environment.from_string(text).render(values) if source.suffix == ".j2" else text, encoding="utf-8"
        )
        path.chmod(0o755 if path.suffix in EXECUTABLE else 0o644)
