"""Makes the models and archives of the benchmark, in a project of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from handlers.worker.values import Shape
from marina.archive import pack
from marina.bench.bert_base import bert_base
from marina.bench.mix import mixed
from marina.bench.usual.pack import pack_handler, pack_usual
from marina.compiler import compile_model
from marina.console import Progress
from marina.project import Project, project_beside
from marina.shapes.advice import advise
from marina.spec import Spec, read_spec

HERE = Path(__file__).parent
CONNECTIONS = 64
NEAR = ("one-worker", "worker-a-core")
GRAPHS = 24
USUAL_TOKENS, USUAL_BATCH = 128, 6


class Setup(NamedTuple):
    """The project, and of each model that is Marina's the spec, the artifact and the shapes."""

    project: Project
    specs: dict[str, Spec]
    artifacts: dict[str, Path]
    shapes: dict[str, tuple[Shape, ...]]


def set_up(root: Path, cores: int, progress: Progress) -> Setup:
    """Make what is not there yet.

    Args:
        root: the repository, with build/training/ava-intent.
        cores: of this machine.
        progress: told of what takes long.
    """
    folder = root / "build" / "bench"
    project = project_beside(Project(root), folder)
    trained = root / "build" / "training" / "ava-intent"

    fields: dict[str, Any] = {
        "task": "text-classification",
        "source": {"path": str(trained)},
        "precision": "auto",
        "examples": str(root / "examples" / "ava_intent" / "test.csv"),
    }
    # shapes are chosen on other texts of the same kind than those that are sent
    lengths = folder / "lengths.csv"
    lengths.write_text("text\n" + "\n".join(mixed(seed=1)) + "\n")
    paths, shapes = [], {}
    for name, groups in ((NEAR[0], 1), (NEAR[1], cores)):
        own = {
            **fields,
            "core_groups": ",".join([str(cores // groups)] * groups),
            "serving": {"batch_size": CONNECTIONS // groups},
        }
        first = _write(project, name, {**own, "shapes": {"exact": [f"1x{USUAL_TOKENS}"]}})
        shapes[name] = advise(read_spec(first), project, lengths, GRAPHS, 0.0, progress).shapes
        chosen = {"exact": [str(shape) for shape in shapes[name]]}
        paths.append(_write(project, name, {**own, "shapes": chosen}))
    fields = bert_base(folder / "bert-base", [1, 8], serving={"batch_size": 8})
    paths.append(_write(project, "bert-base", fields))
    specs, artifacts = {}, {}
    for path in paths:
        spec = specs[path.stem] = read_spec(path)
        artifacts[spec.name] = compile_model(spec, project, progress).folder
        pack(spec, artifacts[spec.name], project.model_store)

    progress("tracing the usual model", 0, 1)
    pack_usual(trained, "usual", project.model_store, folder / "usual", USUAL_TOKENS, USUAL_BATCH)
    config = {"minWorkers": 1, "maxWorkers": 1, "responseTimeout": 120, "startupTimeout": 120}
    pack_handler("nothing", HERE / "nothing" / "handler.py", config, project.model_store)
    return Setup(project, specs, artifacts, shapes)


def _write(project: Project, name: str, fields: dict[str, Any]) -> Path:
    path = project.models / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, **fields}))
    return path
