"""The table of docs/models.md, by compiling what it lists."""

import json
from importlib.metadata import version

import pytest

from docs.made.supported import PROVEN
from marina.project import Project
from tests.handlers.worker.tasks.architectures import ARCHITECTURES
from tests.supported import FILE, MORE, outcomes

pytestmark = pytest.mark.long

STORED = json.loads(FILE.read_text())


def test_the_table_is_of_the_installed_packages() -> None:
    assert {name: version(name) for name in ("transformers", "torch")} == {
        name: STORED[name] for name in ("transformers", "torch")
    }
    assert set(STORED["models"]) == {*ARCHITECTURES, *MORE}


@pytest.mark.parametrize("architecture", STORED["models"])
def test_what_the_table_says_happens(project: Project, architecture: str) -> None:
    described = {**ARCHITECTURES, **MORE}[architecture]
    assert proven(outcomes(project, architecture, described)) == proven(STORED["models"][architecture])


def proven(tasks: dict[str, dict[str, str]]) -> dict[str, dict[str, bool]]:
    """Whether each engine takes each task; why not may differ from run to run."""
    return {task: {engine: what == PROVEN for engine, what in found.items()} for task, found in tasks.items()}
