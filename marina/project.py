"""The folders of a project, which is a folder with `models/` and `config.properties`."""

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
    def config(self) -> Path:
        """The configuration of TorchServe."""
        return self.root / "config.properties"

    @property
    def models(self) -> Path:
        """Model specs."""
        return self.root / "models"

    @property
    def model_store(self) -> Path:
        """Archives."""
        return self.root / "model_store"

    def archives(self) -> list[Path]:
        """The archives of the model store, without the hidden ones that a command registers for a while."""
        return sorted(path for path in self.model_store.glob("*.mar") if not path.name.startswith("."))

    @property
    def artifacts(self) -> Path:
        """Artifacts, one folder per model."""
        return self.root / "build" / "artifacts"

    @property
    def unpacked(self) -> Path:
        """Archives that jobs in bulk have unpacked, one folder per version."""
        return self.root / "build" / "unpacked"

    @property
    def run(self) -> Path:
        """State, logs, keys and temporary files of the running TorchServe."""
        return self.root / "build" / "run"


def find_project(start: Path | None = None) -> Project:
    """The project that contains a folder (default: the current one).

    Raises:
        MarinaError: neither the folder nor any of its parents is a project.
    """
    folder = (start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / "models").is_dir() and (candidate / "config.properties").is_file():
            return Project(candidate)
    raise MarinaError(
        f"{folder} is not in a Marina project",
        "go to the folder that holds models/ and config.properties, or make one with marina new project DIR",
    )


def project_beside(source: Project, root: Path) -> Project:
    """Create a project with the same configuration in another folder, for work that must not touch the user's models.

    Args:
        source: the user's project; its config.properties and deploy/ are copied.
        root: folder of the new project; its other contents are kept.
    """
    project = Project(root)
    for folder in (project.models, project.model_store, root / "deploy"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source.root / "config.properties", root)
    for name in ("log4j2.xml", "metrics.yaml"):
        shutil.copy(source.root / "deploy" / name, root / "deploy")
    return project
