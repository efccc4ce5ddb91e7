"""Has every Python process of an environment measure the lines that it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.suites.tree import Tree

FOLDER = "build/coverage"
SETTINGS = f"{FOLDER}/settings.ini"
ROOMS = ("handlers", "marina")
# programs that Marina writes for other places, and those of other servers that it is compared with
ELSEWHERE = (
    "marina/bundled/*",
    "marina/template/*",
    "marina/deploy/*/files/*",
    "benchmarks/peers/*_server.py",
)
HOOK = "marina_coverage.pth"


class Measuring:
    """A measurement, which begins when it is entered, and ends when it is left.

    What was measured with the same sources adds up, so that a broken-off run can go on.

    Args:
        tree: the repository.
        files: those of handlers/ and marina/ to measure; empty for all.
    """

    def __init__(self, tree: Tree, files: list[str]) -> None:
        self._tree = tree
        self._files = files
        self._hooks: list[Path] = []

    def __enter__(self) -> Measuring:
        path = self._tree.root / SETTINGS
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(settings(self._tree, self._files), encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.unlink(missing_ok=True)

    def follow(self, python: str) -> None:
        """Measure every process of an environment that starts from now on.

        Args:
            python: the environment's interpreter; coverage is installed for it.
        """
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        command = [str(self._tree.root / python), "-c", where]
        packages = subprocess.run(
            command, cwd=self._tree.root, capture_output=True, text=True, check=True
        ).stdout.strip()
        hook = Path(packages) / HOOK
        start = Path(__file__).with_name("start.py")
        # Python runs lines of such files that begin with import
        line = f"import os, runpy; os.path.exists({str(start)!r}) and runpy.run_path({str(start)!r})['start']"
        hook.write_text(f"{line}({str(self._tree.root / SETTINGS)!r})\n", encoding="utf-8")
        self._hooks.append(hook)


def sources(tree: Tree) -> list[str]:
    """The modules of handlers/ and marina/."""
    return [file for room in ROOMS for file in tree.below(room) if file.endswith(".py")]


def changed_sources(tree: Tree) -> list[str]:
    """The modules of handlers/ and marina/ that differ from those of the commit before the change.

    That is MARINA_BASE if it is set, else where the branch left `origin/main`, or the last commit but one.
    """
    for base in (os.environ.get("MARINA_BASE"), _git(tree, "merge-base", "HEAD", "origin/main"), "HEAD~1"):
        if base and base.strip() != _git(tree, "rev-parse", "HEAD").strip():
            changed = _git(tree, "diff", "--name-only", base.strip(), "--", *ROOMS).splitlines()
            return [file for file in sources(tree) if file in changed]
    return []


def _git(tree: Tree, *arguments: str) -> str:
    """What git prints; nothing if it fails."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False).stdout


def report(root: Path, python: str, files: list[str]) -> None:
    """Print what was measured, by an interpreter that has coverage."""
    subprocess.run([root / python, "-m", "tests.coverage.report", *files], cwd=root, check=False)


def settings(tree: Tree, files: list[str]) -> str:
    """The settings of coverage.

    Archives carry copies of handlers/, which count as the files of this repository.
    """
    root = tree.root
    version = tree.digest([*sources(tree), *files])[:12]
    include = [f"*/{file}" for file in files] or [f"*/{room}/*" for room in ROOMS]
    omit = [f"{root}/tests/*", "*/site-packages/*", *(f"*/{pattern}" for pattern in ELSEWHERE)]
    lines = [
        "[run]",
        f"data_file = {root / FOLDER / version}/data",
        "branch = true",
        "parallel = true",
        "patch = fork, _exit",
        "disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse, no-ctracer",
        f"include = {', '.join(include)}",
        f"omit = {', '.join(omit)}",
        "[paths]",
        *(f"{room} =\n    {root / room}\n    */{room}" for room in ROOMS),
        "[report]",
        "ignore_errors = true",  # of engines that only an archive has
        "exclude_also =\n    if TYPE_CHECKING:\n    \\.\\.\\.$",
        f"omit = {', '.join(omit)}",
        "[html]",
        f"directory = {root / FOLDER / 'html'}",
    ]
    return "\n".join(lines) + "\n"
