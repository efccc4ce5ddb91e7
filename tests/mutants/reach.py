"""Which tests reach each line, as a run of the tests shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from coverage import CoverageData

# compiled code of the simulator could not be measured, nor changed without compiling it for 40 seconds
ENVIRONMENT = {"NUMBA_DISABLE_JIT": "1"}
LIMIT_S = 30.0  # of tests for a mutant, as they took when reach was measured


@dataclass(frozen=True)
class Reach:
    """Which tests reach each line of each file.

    Attributes:
        lines: the tests by file and line.
        seconds: that each test took, with what it set up.
        version: of the code and the tests that were run.
    """

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]
    version: str

    def tests_of(self, file: str, line: int) -> list[str]:
        """The tests that reach a line; of a line that runs at import, those that reach its file.

        They are in the order in which they are tried: the file that mirrors it, and then files by the time that they
        take; the quick tests of each, as far as LIMIT_S reaches.
        """
        lines = self.lines.get(file, {})
        tests = lines.get(str(line)) or sorted({test for reaching in lines.values() for test in reaching})
        files = defaultdict[str, list[str]](list)
        for test in tests:
            files[test.partition("::")[0]].append(test)
        mirror = f"test_{Path(file).stem}.py"
        # what a file sets up shows in the time of the test that came first
        cost = {name: self.seconds_of(files[name]) + self._slowest(name) for name in files}
        chosen, left = list[str](), LIMIT_S
        for name in sorted(files, key=lambda name: (not name.endswith(mirror), cost[name])):
            for test in sorted(files[name], key=self.seconds.__getitem__):
                if not chosen or self.seconds[test] <= left:
                    chosen.append(test)
                    left -= self.seconds[test]
        return chosen

    def seconds_of(self, tests: list[str]) -> float:
        """How long tests took."""
        return sum(self.seconds[test] for test in tests)

    def _slowest(self, file: str) -> float:
        return max(seconds for test, seconds in self.seconds.items() if test.startswith(f"{file}::"))


def measure_reach(root: Path, rooms: tuple[str, ...], tests: tuple[str, ...], version: str, path: Path) -> Reach:
    """Run tests, and write and return what they reach.

    What a fixture reaches counts for every test of its file.

    Args:
        root: the copy of the repository in which mutants are judged: without them, all tests must pass there.
        rooms: the packages that mutants are drawn from.
        tests: the folders of tests.
        version: to note.
        path: the file to write.

    Raises:
        CalledProcessError: a test failed.
    """
    data, report = path.with_name("coverage"), path.with_name("report.xml")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not long"]
    command += [*(f"--cov={room}" for room in rooms), "--cov-context=test", "--cov-report=", f"--junitxml={report}"]
    variables = {**os.environ, **ENVIRONMENT, "COVERAGE_FILE": str(data)}
    subprocess.run([*command, "-o", "junit_family=xunit1", *tests], cwd=root, env=variables, check=True)
    contexts = CoverageData(str(data))
    contexts.read()
    of_file = defaultdict[str, set[str]](set)
    for context in contexts.measured_contexts():
        of_file[context.partition("::")[0]].add(context.rpartition("|")[0])
    reach = dict[str, dict[str, list[str]]]()
    for file in contexts.measured_files():
        lines = reach[Path(file).relative_to(root).as_posix()] = {}
        for line, names in contexts.contexts_by_lineno(file).items():
            reaching = set[str]()
            for test, _, phase in (name.rpartition("|") for name in names if name):
                reaching |= of_file[test.partition("::")[0]] if phase == "setup" else {test}
            lines[str(line)] = sorted(reaching)
    seconds = {
        f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0))
        for case in ET.parse(report).iter("testcase")
    }
    measured = Reach(reach, seconds, version)
    path.write_text(json.dumps(asdict(measured)), encoding="utf-8")
    return measured


def read_reach(path: Path) -> Reach | None:
    """Read what was measured; None if nothing was."""
    return Reach(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
