"""Models of a library's folder, as a user makes them, that answer in this process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from handlers.worker.answering.model import Model
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.new import new_project, new_spec
from marina.spec import read_spec
from tests.conftest import ENGINE, no_progress
from tests.settings import make_settings


def open_folder(folder: Path, parent: Path, task: str, tokens: int = 64) -> Model:
    """Compile the model of a folder, whose task must be recognised, for texts of so many tokens.

    Args:
        folder: the model's folder.
        parent: the folder for a new project.
        task: the task that it has.
        tokens: of the longest texts.
    """
    project = new_project(parent / "project")
    path = new_spec(project, "model", str(folder), None).path
    path.write_text(re.sub(r"auto: \d+", f"auto: {tokens}", path.read_text()))
    spec = read_spec(path, {"engine": ENGINE})
    assert spec.task == task
    return Model(compile_model(spec, project, no_progress).folder, make_settings(), TASKS)


def reply(model: Model, document: Any, status: int = 200) -> Any:
    """A model's reply to a JSON document, which must have this status."""
    (answer,) = model.reply([(json.dumps(document).encode(), {"content-type": "application/json"})])
    assert answer.status == status, answer.body
    return json.loads(answer.body)
