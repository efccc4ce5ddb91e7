"""Creates an empty project, and the spec of a model, for new users to start with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import Task
from marina.compiler.hugging_face import encoder_folder, hub_error, hub_folder
from marina.compiler.hugging_face.architecture import architectures_of, tasks_of_architectures
from marina.errors import MarinaError, SourceError
from marina.files import read_object, write_text
from marina.project import Project
from marina.spec import explain, make_spec

TEMPLATE = Path(__file__).parent / "template"
SAMPLE = "messages.csv"
IGNORED = "build/\nmodel_store/*.mar\nmodel_store/*.footprint.json\nkey_file.json\n"
CONFIGURATION_FILES = ("*.json", "artifact.metadata")  # of a model of the hub, also in its folders; no weights
DEFAULT_POSITIONS = 512  # of models whose config.json has no number
# files beside config.json with a limit of tokens: of sentence-transformers, and of tokenizers
LIBRARY_FILE = "sentence_bert_config.json"
LIMIT_FIELDS = {LIBRARY_FILE: "max_seq_length", "tokenizer_config.json": "model_max_length"}
SPEC = """\
# docs/reference/spec.md in Marina's repository documents every field; marina check {name} checks this file.
name: {written_name}
task: {task}
source:
{source}
shapes:
  auto: {longest}  # tokens of the longest texts; Marina chooses the shapes up to it, the best if you name examples
# For speed, name a file of texts like those that you will serve, and let Marina choose the precision:
# examples: texts.csv
# precision: auto
# For Inferentia, neuron (Inf1) or neuronx (Inf2, Trn1), here with one worker on each of two cores:
# engine: neuronx
# core_groups: "1,1"
"""


# files of `deploy`; all are in one folder of the package
DEPLOY_FILES = (
    "log4j2.xml",
    "metrics.yaml",
    "nginx.conf",
    "nginx-public.conf",
    "dashboard.json",
    "systemd/marina.service",
    "prometheus/alerts.yaml",
    "prometheus/slo.yaml",
)


def new_project(root: Path) -> Project:
    """Create an empty project.

    Raises:
        MarinaError: the folder is a project already.
    """
    project = Project(root.resolve())
    if (root / "config.properties").exists() or project.models.exists():
        raise MarinaError(f"{root} is a project already", "name another folder")
    for folder in (project.models, project.model_store, project.root / "deploy"):
        folder.mkdir(parents=True, exist_ok=True)
    for target in DEPLOY_FILES:
        path = project.root / "deploy" / target
        path.parent.mkdir(exist_ok=True)
        shutil.copy(TEMPLATE / path.name, path)
    examples = project.root / "examples"
    examples.mkdir(exist_ok=True)
    for path in (root / "README.md", examples / SAMPLE):
        if not path.exists():
            shutil.copy(TEMPLATE / path.name, path)
    if not (root / ".gitignore").exists():
        (root / ".gitignore").write_text(IGNORED)
    # last, because this file makes the folder a project
    shutil.copy(TEMPLATE / "config.properties", root)
    return project


class NewSpec(NamedTuple):
    """A spec that was written.

    Attributes:
        path: its file.
        longest: the tokens of the longest texts that it is for.
        readable: the tokens of the longest texts that the model could read.
    """

    path: Path
    longest: int
    readable: int


def new_spec(project: Project, name: str, origin: str, task: str | None) -> NewSpec:
    """Write the spec of a model.

    Args:
        project: project to write it into.
        name: name of the model.
        origin: a folder, or a model id on the Hugging Face Hub.
        task: task of the model; None to detect it from the model's files.

    It is for texts as long as sentence-transformers would read, where the folder says so, or else for texts of a usual
    length.

    Raises:
        MarinaError: the spec exists already, the model cannot be read, or its files do not show its task.
    """
    from marina.compiler.tasks import EXPORTERS

    path = project.models / f"{name}.yaml"
    if path.exists():
        raise MarinaError(f"{path} exists already", "choose another name, or edit it")
    folder = Path(origin).expanduser().resolve()
    if origin.startswith((".", "/", "~")) and not folder.is_dir():
        raise SourceError(f"{origin} is not a folder", "name one that save_pretrained wrote, or a model id of the hub")
    path_in_project = folder.relative_to(project.root) if folder.is_relative_to(project.root) else folder
    source = {"path": str(path_in_project)} if folder.is_dir() else _hub_source(origin)
    files = folder if folder.is_dir() else hub_folder(origin, source["revision"], CONFIGURATION_FILES)
    config = _read_config(files, origin)
    if task in TASKS:
        _check_head(task, config, origin)
    task = task or _guess_task(files, config, origin)
    encoder = encoder_folder(files)
    readable, named = _max_tokens(encoder, config), EXPORTERS[task].library_length(files) if task in EXPORTERS else None
    usual_length = TASKS[task].usual_length if task in TASKS else Task.usual_length
    longest = named or min(readable, _library_length(encoder) or usual_length)
    readable = max(readable, longest)
    text = SPEC.format(
        name=name,
        written_name=name if yaml.safe_load(name) == name else json.dumps(name),  # 1.10 and no mean others in YAML
        task=task,
        source="".join(f"  {key}: {json.dumps(value)}\n" for key, value in source.items()).rstrip("\n"),
        longest=longest,
    )
    parameters = TASKS[task].example_parameters if task in TASKS else {}
    if parameters:
        text += "# parameters:  # of requests that do not set them, and of bench, calibrate and plan\n"
        text += "".join(f"#   {parameter}: {json.dumps(value)}\n" for parameter, value in parameters.items())
    try:
        make_spec(yaml.safe_load(text))
    except ValidationError as error:
        raise MarinaError(f"{name}: {explain(error)}") from None
    write_text(path, text)
    return NewSpec(path, longest, readable)


def _hub_source(model: str) -> dict[str, str]:
    from huggingface_hub import HfApi

    try:
        return {"hub": model, "revision": str(HfApi().model_info(model).sha)}
    except Exception as error:
        raise hub_error(f"{model} is not a folder, and the Hugging Face hub does not return it", error) from None


def _read_config(folder: Path, origin: str) -> dict[str, Any]:
    config = read_object(encoder_folder(folder) / "config.json")
    if config is None:
        raise SourceError(
            f"{origin} holds no model: config.json is missing or damaged", "name a folder of save_pretrained"
        )
    return config


def _library_length(folder: Path) -> int | None:
    """The length at which sentence-transformers cuts texts, if it is one that servers usually compile for."""
    length = (read_object(folder / LIBRARY_FILE) or {}).get(LIMIT_FIELDS[LIBRARY_FILE])
    return length if isinstance(length, int) and 0 < length <= DEFAULT_POSITIONS else None


def _max_tokens(folder: Path, config: dict[str, Any]) -> int:
    """The length of the longest text that a model reads, from its files."""
    positions = config.get("max_position_embeddings")
    # some models, such as RoBERTa, number positions from 2; others, without a limit, write -1
    limits = [(positions if isinstance(positions, int) and positions > 2 else DEFAULT_POSITIONS) - 2]
    for name, field in LIMIT_FIELDS.items():
        limit = (read_object(folder / name) or {}).get(field)
        if isinstance(limit, int) and limit > 0:
            limits.append(limit)
    return min(limits)


def _check_head(task: str, config: dict[str, Any], origin: str) -> None:
    """Refuse a task if the architecture names the head of another one."""
    from marina.compiler.tasks import HEADS

    architectures = architectures_of(config)
    tasks = tasks_of_architectures(architectures, HEADS)
    if tasks and task in HEADS and task not in tasks:
        raise SourceError(
            f"{origin} is a {' '.join(architectures)}, which is for the task {' or '.join(tasks)}", "leave --task out"
        )


def _guess_task(folder: Path, config: dict[str, Any], origin: str) -> str:
    from marina.compiler.tasks import recognise

    task = recognise(folder, config)
    if task:
        return task
    architectures = architectures_of(config)
    raise SourceError(
        f"the task of {origin} is not clear: config.json names the architectures {', '.join(architectures) or 'none'}",
        f"give --task: {', '.join(name for name, candidate in TASKS.items() if not candidate.scripts_only)}",
    )
