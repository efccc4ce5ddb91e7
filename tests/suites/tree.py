"""The files of this repository, and the modules among them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath

# where modules of this repository lie
ROOMS = ("handlers", "marina", "tests", "docs", "examples", "benchmarks")


class Tree:
    """The files that git has of a folder, or would add to it.

    Args:
        root: the folder.
        files: their names relative to it, with slashes.
    """

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.root = root
        self.files = frozenset(files)

    @cached_property
    def modules(self) -> dict[str, str]:
        """The file of every module, by its dotted name; a folder's own is `__init__.py`, and `__main__.py` too."""
        found = {}
        for file in sorted(self.files):
            path = PurePosixPath(file)
            if path.suffix == ".py" and (path.parts[0] in ROOMS or len(path.parts) == 1):
                name = ".".join(path.with_suffix("").parts)
                found[name.removesuffix(".__init__")] = file
        return found

    @cached_property
    def folders(self) -> dict[str, list[str]]:
        """The files directly in each folder."""
        found: dict[str, list[str]] = {}
        for file in sorted(self.files):
            parent = PurePosixPath(file).parent
            found.setdefault(str(parent), []).append(file)
            for above in parent.parents:
                found.setdefault(str(above), [])
        return found

    def below(self, folder: str) -> list[str]:
        """All files in a folder and those in it."""
        return sorted(file for file in self.files if file.startswith(f"{folder}/"))

    def digest(self, files: Iterable[str]) -> str:
        """A digest of the names and contents of files."""
        whole = hashlib.sha256()
        for file in files:
            whole.update(file.encode() + (self.root / file).read_bytes())
        return whole.hexdigest()

    def copy(self, folder: Path) -> Tree:
        """A copy of all files in a folder."""
        for file in self.files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / file, folder / file, follow_symlinks=False)
        return Tree(folder, self.files)

    def data_of(self, folder: str) -> list[str]:
        """What lies beside the modules of a package: files that are no modules, and folders that are no packages."""
        if f"{folder}/__init__.py" not in self.files:
            return []
        found = [file for file in self.folders.get(folder, []) if not file.endswith(".py")]
        for other in self.folders:
            if str(PurePosixPath(other).parent) == folder and f"{other}/__init__.py" not in self.files:
                found += self.below(other)
        return found


def tree_of(root: Path) -> Tree:
    """The tree of a checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return Tree(root, (file for file in listed.split("\0") if (root / file).is_file()))
