"""Whether tests notice a mutant."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.draw import Mutant
from tests.mutants.reach import ENVIRONMENT
from tests.suites.tree import tree_of

# CPU time until tests have begun, and how many times as much tests may take as without the mutant
START_S, SLOWER = 30.0, 4.0
LIMIT_S = 1800  # by the clock, for tests that wait for ever


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        outcome: `killed` if a test failed, `late` if the tests did not end, `survived` if all passed, `unreached` if
            there is no test that reaches it.
        tests: how many tests reach it.
        seconds: that they took.
    """

    outcome: str
    tests: int
    seconds: float


class Workspace:
    """A copy of the repository in which mutants are judged one after the other.

    Args:
        root: the repository.
        folder: where the copy goes.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        tree_of(root).copy(folder)

    def judge(self, mutant: Mutant, tests: list[str], seconds: float) -> Verdict:
        """Run tests with a mutant in place; they end at the first failure. Without it, they take these seconds."""
        if not tests:
            return Verdict("unreached", 0, 0.0)
        path = self.folder / mutant.file
        original = path.read_bytes()
        path.write_text(mutant.code(self._root), encoding="utf-8")
        start = time.monotonic()
        try:
            outcome = self._run(tests, round(START_S + SLOWER * seconds))
        finally:
            path.write_bytes(original)
        return Verdict(outcome, len(tests), round(time.monotonic() - start, 1))

    def _run(self, tests: list[str], cpu_s: int) -> str:
        with tempfile.TemporaryDirectory() as folder:
            arguments = Path(folder) / "tests"
            arguments.write_text("\n".join(tests), encoding="utf-8")
            options = ["-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder}/temp", f"@{arguments}"]
            process = subprocess.Popen(
                ["prlimit", f"--cpu={cpu_s}:{cpu_s + 5}", sys.executable, "-B", "-m", "pytest", *options],
                cwd=self.folder,
                env={**os.environ, **ENVIRONMENT},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = process.wait(LIMIT_S)
                return {0: "survived", -signal.SIGXCPU: "late"}.get(code, "killed")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return "late"
