"""Where things lie: the folders of a project, which is a folder with `models/` and `config.properties`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from marina.errors import MarinaError


@dataclass(frozen=True)
class Project:
    """The folders of one project."""

    root: Path

    @property
    def models(self) -> Path:
        """Model specs."""
        return self.root / "models"

    @property
    def model_store(self) -> Path:
        """Archives."""
        return self.root / "model_store"

    @property
    def artifacts(self) -> Path:
        """Artifacts, one folder a model."""
        return self.root / "build" / "artifacts"

    @property
    def run(self) -> Path:
        """State, logs, keys and temporary files of the running TorchServe."""
        return self.root / "build" / "run"


def find_project(start: Path | None = None) -> Project:
    """The project that a folder, by default the current one, belongs to.

    Raises:
        MarinaError: neither the folder nor any above it is a project.
    """
    folder = (start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / "models").is_dir() and (candidate / "config.properties").is_file():
            return Project(candidate)
    raise MarinaError(f"{folder} is not in a Marina project; go to the folder that holds models/ and config.properties")


def project_beside(own: Project, root: Path) -> Project:
    """A project in another folder, configured as a given one is, for what must not touch that one's models.

    Args:
        own: whose config.properties and deploy/ are copied.
        root: the folder; what is there stays.
    """
    project = Project(root)
    for folder in (project.models, project.model_store, root / "deploy"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(own.root / "config.properties", root)
    for name in ("log4j2.xml", "metrics.yaml"):
        shutil.copy(own.root / "deploy" / name, root / "deploy")
    return project
