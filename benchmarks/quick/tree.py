"""The code of a revision, with a project of its own in which its commands run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from marina.errors import MarinaError
from marina.project import Project

PARTS = ("handlers", "marina", "deploy", "config.properties")  # of the repository that commands need


class Tree(NamedTuple):
    """The code of a revision.

    Attributes:
        name: of the revision.
        code: the folder with `handlers` and `marina`.
        project: in which its commands run.
    """

    name: str
    code: Path
    project: Project

    def marina(self, *arguments: str) -> str:
        """What one of its commands prints; MarinaError if it fails."""
        return self.python("-m", "marina", *arguments)

    def python(self, *arguments: str) -> str:
        """What a Python process with its code prints; MarinaError if it fails."""
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.project.root,
            env={**os.environ, "PYTHONPATH": str(self.code)},
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            reason = (process.stderr.strip() or process.stdout.strip() or "it printed nothing").splitlines()[-1]
            raise MarinaError(f"{self.name}: {' '.join(arguments)}: {reason}")
        return process.stdout


def export(repository: Path, revision: str, folder: Path) -> None:
    """Write the code of a revision into a folder, which is emptied first; MarinaError if there is no such revision."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = ["git", "-C", str(repository), "archive", revision, *PARTS]
    archived = subprocess.run(command, capture_output=True, check=False)
    if archived.returncode:
        reason = archived.stderr.decode(errors="replace").strip().splitlines()[-1]
        raise MarinaError(f"git cannot give the revision {revision}: {reason}", "name another with BASE=REVISION")
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=archived.stdout, check=True)
