"""The inputs of suites, and a digest of each suite's."""

from __future__ import annotations

import hashlib
import platform
import sys

from tests.suites.proven import PROVEN
from tests.suites.reach import Reach
from tests.suites.table import SETTINGS, STACKS, SUITES, Suite, requirements_of
from tests.suites.tree import Tree


class Digests:
    """What each suite depends on.

    Args:
        tree: the repository.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._reach = Reach(tree)
        self._contents: dict[str, str] = {}

    def inputs(self, name: str) -> list[str]:
        """The files that a suite depends on, in order."""
        suite = SUITES[name]
        tests = [file for path in suite.paths for file in _files(self._tree, path)]
        given = [file for path in suite.files for file in _files(self._tree, path)]
        pins = requirements_of(self._tree.root, (*STACKS[suite.stack].requirements, *suite.requirements))
        return sorted({*self._reach.of([*tests, *given]), *pins, *SETTINGS} - {PROVEN})

    def of(self, name: str) -> str:
        """The digest of a suite: of its inputs, of how it is run, and of the platform."""
        whole = hashlib.sha256(f"{SUITES[name]}\n{_platform(SUITES[name])}\n".encode())
        for file in self.inputs(name):
            whole.update(f"{self._digest(file)}  {file}\n".encode())
        return whole.hexdigest()

    def _digest(self, file: str) -> str:
        if file not in self._contents:
            self._contents[file] = hashlib.sha256((self._tree.root / file).read_bytes()).hexdigest()
        return self._contents[file]


def _files(tree: Tree, path: str) -> list[str]:
    found = [path] if path in tree.files else tree.below(path)
    assert found, f"tests/suites/table.py names {path}, which does not exist"
    return found


def _platform(suite: Suite) -> str:
    """The kind of machine and the Python that a suite runs on; versions of packages are pins."""
    python = STACKS[suite.stack].version or ".".join(map(str, sys.version_info[:2]))
    return f"{platform.system()} {platform.machine()} Python {python}"
