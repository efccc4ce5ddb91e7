"""Chooses the shapes of specs that say `shapes: auto`, once, and keeps the choice in build/shapes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handlers.worker.values import Shape
from marina.compiler.sources import open_source
from marina.console import Progress, say
from marina.engines import engine_of
from marina.errors import NotPackable, SpecError
from marina.files import explain, read_object, write_json
from marina.project import Project
from marina.spec import Spec
from marina.spec.sections import MIN_PACKED_LENGTH, Shapes

FORMAT = 3  # of the file with the choices; shapes are chosen again for another format
MAX_CHOICES = 20  # that are kept of a model
PRICE = 0.01  # the fraction of the best possible time that a graph must save


def with_shapes(spec: Spec, project: Project, progress: Progress) -> Spec:
    """The spec with chosen shapes, if it leaves its shapes to Marina.

    The choice is kept until the weights, the examples, the engine or its section, the precision, the core groups,
    memory_mb or the longest shape change. Where graphs cannot be timed, as graphs of NeuronCores on other machines, the
    choice is a ladder.

    Raises:
        MarinaError: the weights or the examples cannot be read, or the model cannot be compiled.
    """
    if spec.shapes.auto is None:
        return spec
    key = _key(spec, project)
    shapes = _read_choices(spec, project).get(key)
    if shapes is None:
        shapes = _choose(spec, project, progress)
        choices = {**_read_choices(spec, project), key: shapes}
        path = _file(spec, project)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"format": FORMAT, "choices": dict(list(choices.items())[-MAX_CHOICES:])})
        say(f"{spec.name}: chose the shapes {', '.join(shapes)}")
    return _with(spec, shapes)


def with_known_shapes(spec: Spec, project: Project) -> Spec:
    """The spec with the shapes that `with_shapes` chose for it before; the same spec if it has not.

    Raises:
        MarinaError: the weights or the examples cannot be read.
    """
    shapes = None if spec.shapes.auto is None else _read_choices(spec, project).get(_key(spec, project))
    return spec if shapes is None else _with(spec, shapes)


def _with(spec: Spec, shapes: Sequence[str]) -> Spec:
    return spec.model_copy(update={"shapes": Shapes(exact=tuple(shapes))})


def _choose(spec: Spec, project: Project, progress: Progress) -> list[str]:
    # these import torch, which takes seconds
    from marina.compiler.graphs.packable import export_for
    from marina.shapes.advice import advise
    from marina.shapes.ladder import default_ladder

    engine = engine_of(spec.engine)
    if (spec.examples or spec.memory_mb) and engine.runs_here(spec.for_engine):
        shapes = advise(spec, project, None, None, PRICE, progress).shapes
    else:
        assert spec.shapes.auto
        progress("asking whether rows can be packed", 0, 1)
        packed = not engine.refuses_packed(spec.for_engine)
        try:
            export_for([Shape(1, MIN_PACKED_LENGTH, packed=True)], open_source(spec, project.root), spec.name)
        except NotPackable:
            packed = False
        shapes = default_ladder(spec.shapes.auto, None, packed).shapes
    return [str(shape) for shape in shapes]


def _key(spec: Spec, project: Project) -> str:
    """Identifies everything that a choice depends on."""
    try:
        examples = (project.root / spec.examples).read_bytes() if spec.examples else b""
    except OSError as error:
        raise SpecError(
            f"{spec.name}: examples: {explain(error)}", "name a file in the project, or leave it out"
        ) from None
    inputs: dict[str, Any] = {
        "weights": open_source(spec, project.root).fingerprint(),
        "examples": hashlib.sha256(examples).hexdigest(),
        "spec": spec.model_dump(mode="json", include={"task", "engine", "precision", "core_groups", "mode", "shapes"}),
    }
    inputs |= {"memory_mb": spec.memory_mb} if spec.memory_mb else {}
    options = spec.for_engine.options  # they change the times of graphs, and whether rows can be packed
    inputs |= {"options": options.model_dump(mode="json")} if options is not None else {}
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def _file(spec: Spec, project: Project) -> Path:
    return project.root / "build" / "shapes" / f"{spec.name}.json"


def _read_choices(spec: Spec, project: Project) -> dict[str, list[str]]:
    """The choices of earlier runs, by their keys."""
    document = read_object(_file(spec, project)) or {}
    choices = document.get("choices")
    return choices if document.get("format") == FORMAT and isinstance(choices, dict) else {}
