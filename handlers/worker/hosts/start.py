"""Loads the model of a worker, and says in its log why it cannot be served."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handlers.worker.answering.model import Model
from handlers.worker.archive.artifact import ARTIFACT_FOLDER
from handlers.worker.errors import FAILURE_MARK, WorkerError
from handlers.worker.settings import read_settings
from handlers.worker.tasks.base import Task


def load_model(folder: Path, config: Mapping[str, Any], tasks: Mapping[str, Task], knows_wait: bool = False) -> Model:
    """Load the models of an unpacked archive, and check them on their golden rows.

    Args:
        folder: of the archive.
        config: its model-config.yaml.
        tasks: the tasks that the archive's models may have, by name.
        knows_wait: whether the host says of each request when it came, and refuses those that are late.

    Raises:
        WorkerError: it cannot be served; the reason is on standard error.
    """
    # libraries log a line for every batch at INFO
    logging.getLogger().setLevel(logging.WARNING)
    try:
        model = Model(folder / ARTIFACT_FOLDER, read_settings(config), tasks, knows_wait)
    except WorkerError as error:
        print(f"{FAILURE_MARK} {error}", file=sys.stderr, flush=True)
        raise
    except Exception as error:
        print(f"{FAILURE_MARK} {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        raise
    for name, failure in model.failures.items():
        print(f"{FAILURE_MARK} {name}: {failure}", file=sys.stderr, flush=True)
    return model
