"""Makes the models and archives of the benchmark, in a project of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from model_archiver import ModelArchiver, ModelArchiverConfig

from benchmarks.texts import mixed
from benchmarks.usual.handler import BATCH_SIZE, MAX_LENGTH
from handlers.worker.plan import Shape
from marina.archive import pack
from marina.compiler import compile_model
from marina.compiler.build import Progress
from marina.project import Project
from marina.shapes.advice import advise
from marina.spec import read_spec

HERE = Path(__file__).parent
CONNECTIONS = 64
NEAR = ("one-worker", "worker-a-core")
GRAPHS = 24
BASE_TOKENS = 128


class Setup(NamedTuple):
    """The project, and the artifact of each model that is Marina's."""

    project: Project
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
    project = Project(folder)
    for name in ("models", "model_store", "deploy"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(root / "config.properties", folder)
    for name in ("log4j2.xml", "metrics.yaml"):
        shutil.copy(root / "deploy" / name, folder / "deploy")
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
        first = _write(project, name, {**own, "shapes": {"exact": [f"1x{MAX_LENGTH}"]}})
        shapes[name] = advise(read_spec(first), project, lengths, GRAPHS, 0.0, progress).shapes
        chosen = {"exact": [str(shape) for shape in shapes[name]]}
        paths.append(_write(project, name, {**own, "shapes": chosen}))
    paths.append(_write(project, "bert-base", _bert_base(folder)))
    artifacts = {}
    for path in paths:
        spec = read_spec(path)
        artifacts[spec.name] = compile_model(spec, project, progress).folder
        pack(spec, artifacts[spec.name], project.model_store)

    progress("tracing the usual model", 0, 1)
    # torch-model-archiver stages in the temporary folder, and first empties what has the model's name there
    tempfile.tempdir = str(folder / "tmp")
    (folder / "tmp").mkdir(exist_ok=True)
    _pack_usual(trained, folder)
    config = {"minWorkers": 1, "maxWorkers": 1, "responseTimeout": 120, "startupTimeout": 120}
    _pack(folder, "nothing", HERE / "nothing" / "handler.py", config)
    return Setup(project, artifacts, shapes)


def _write(project: Project, name: str, fields: dict[str, Any]) -> Path:
    path = project.models / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, **fields}))
    return path


def _bert_base(folder: Path) -> dict[str, Any]:
    """A spec for a model of BERT-base's size with random weights, for texts of exactly 128 tokens."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    source = folder / "bert-base"
    if not (source / "model.safetensors").exists():
        torch.manual_seed(0)
        BertForSequenceClassification(BertConfig()).save_pretrained(source)
        AutoTokenizer.from_pretrained(folder.parent / "training" / "ava-intent").save_pretrained(source)
    return {
        "task": "text-classification",
        "source": {"path": str(source)},
        "shapes": {"exact": [f"1x{BASE_TOKENS}", f"8x{BASE_TOKENS}"]},
        "serving": {"batch_size": 8},
        "parity": {"tolerance": 1e-3},
    }


def _pack_usual(trained: Path, folder: Path) -> None:
    """Trace the model at one shape and pack it as torch-model-archiver does."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    work = folder / "usual"
    work.mkdir(exist_ok=True)
    model = AutoModelForSequenceClassification.from_pretrained(trained, return_dict=False).eval()
    AutoTokenizer.from_pretrained(trained).save_pretrained(work)
    labels = [model.config.id2label[number] for number in range(model.config.num_labels)]
    (work / "labels.json").write_text(json.dumps(labels))
    inputs = tuple(torch.ones(BATCH_SIZE, MAX_LENGTH, dtype=torch.long) for _ in range(3))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(model, inputs), str(folder / "usual.pt"))
    config = {
        **{"minWorkers": 1, "maxWorkers": 1, "batchSize": BATCH_SIZE, "maxBatchDelay": 5},
        **{"responseTimeout": 120, "startupTimeout": 120},
    }
    extra = ",".join(str(path) for path in sorted(work.iterdir()))
    _pack(folder, "usual", HERE / "usual" / "handler.py", config, str(folder / "usual.pt"), extra)


def _pack(
    folder: Path, name: str, handler: Path, config: dict[str, int], model: str | None = None, extra: str | None = None
) -> None:
    config_file = folder / f"{name}-config.yaml"
    config_file.write_text(yaml.safe_dump(config))
    ModelArchiver.generate_model_archive(
        ModelArchiverConfig(
            model_name=name,
            handler=str(handler),
            version="1.0",
            serialized_file=model,
            extra_files=extra,
            config_file=str(config_file),
            export_path=str(folder / "model_store"),
            force=True,
        )
    )
