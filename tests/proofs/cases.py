"""The models of the proofs: a small random one of every architecture for every task, as it is compiled for Neuron."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import transformers

from handlers.worker.rows.lines import number_positions
from handlers.worker.values import Shape
from marina.compiler.graphs.packable import with_packed
from marina.compiler.sources.folder import ModelFolder
from marina.engines.model import ExportedModel, example_inputs
from marina.errors import NotPackable
from marina.spec import make_spec
from tests.handlers.worker.tasks.architectures import ARCHITECTURES, SUFFIXES, save_model
from tests.supported import MORE

SHAPE = Shape(2, 32)
PACKED = ", packed"  # ends the task of a model whose rows are packed
EVERY = {**ARCHITECTURES, **MORE}


class Case(NamedTuple):
    """A model of an architecture for a task, and the shape to compile; or why it cannot be exported."""

    architecture: str
    task: str
    model: ExportedModel | str
    shape: Shape = SHAPE


def cases(folder: Path, engine: str, wanted: Mapping[str, object] = EVERY) -> Iterator[Case]:
    """Every model that transformers has a class for, exported for an engine, and again if its rows can be packed.

    Args:
        folder: for the models' files.
        engine: the engine's name.
        wanted: the architectures.
    """
    for architecture in sorted(wanted):
        described = EVERY[architecture]
        for task, suffix in SUFFIXES.items():
            if _has(described[0] + suffix):
                model = _export(folder / f"{architecture}-{task}", architecture, task, engine)
                yield Case(architecture, task, model)
                if not isinstance(model, str):
                    with suppress(NotPackable):
                        packed = SHAPE._replace(packed=True)
                        yield Case(architecture, task + PACKED, with_packed(model, "m"), packed)


def _has(name: str) -> bool:
    try:
        return hasattr(transformers, name)
    except (ImportError, RuntimeError):  # of a package that the architecture needs
        return False


def _export(folder: Path, architecture: str, task: str, engine: str) -> ExportedModel | str:
    try:
        save_model(folder, architecture, task, described=EVERY[architecture])
        spec = {"name": "m", "task": task, "engine": engine, "source": {"path": str(folder)}}
        model = ModelFolder(make_spec({**spec, "shapes": {"exact": [str(SHAPE)]}}), folder).export()
    except Exception as error:  # the libraries may raise any
        return " ".join(str(error).split()).replace(str(folder), "its folder").removeprefix("m: ")[:150]
    return model


def varied_inputs(model: ExportedModel, shape: Shape) -> tuple[object, ...]:
    """Inputs like `example_inputs`, with different tokens in every place."""
    import torch

    names = model.packed_inputs if shape.packed else model.inputs
    named = dict(zip(names, example_inputs(model, shape), strict=True))
    ids = 4 + torch.arange(SHAPE.batch_size * SHAPE.sequence_length).reshape(SHAPE.dims) % 60
    named["input_ids"] = ids
    if model.padding_position is not None and not shape.packed:
        named["position_ids"] = torch.from_numpy(number_positions(ids.numpy(), model.padding_position))
    return tuple(named[name] for name in names)
