"""The suites of slow tests: what changes a suite's digest, and what is recorded of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.suites import __main__ as command
from tests.suites.digest import Digests
from tests.suites.outcome import Outcome, unproven
from tests.suites.proven import PROVEN, read_proofs
from tests.suites.run import Stage
from tests.suites.table import STACKS, SUITES, Stack, Suite
from tests.suites.tree import Tree, tree_of

CPU = {name for name, suite in SUITES.items() if suite.stack == "cpu"}


@pytest.fixture(scope="module")
def inputs() -> dict[str, set[str]]:
    digests = Digests(tree_of(ROOT))
    return {name: set(digests.inputs(name)) for name in SUITES}


@pytest.mark.parametrize(
    ("file", "suites"),
    [
        ("docs/faq.md", {"docs"}),
        ("docs/recipes.md", {"docs", "readme"}),
        ("examples/resume_match/__main__.py", {"docs", "readme"}),
        ("tests/end_to_end/test_ray.py", {"ray"}),
        ("tests/end_to_end/images.py", {"images", "torchserve-images"}),
        ("marina/container/probes.py", {"docs", "images", "torchserve-images", "wheel"}),
        ("tests/chaos/load.py", {"chaos", "direct"}),
        ("tests/data/question_answering/expected.json", {"inf1-stack", "inf2-stack"}),
        ("docs/proofs/xla.json", {"docs", "xla"}),
        ("requirements/torchserve-0.11.txt", {"torchserve-0.11", "neuron", "wheel", "inf1-stack", "inf2-stack"}),
        ("requirements/xla.txt", {"xla", "neuron", "wheel", "inf1-stack", "inf2-stack"}),
        ("marina/cli/shapes.py", {"docs", "readme", "measuring", "wheel"}),
        ("marina/plan/simulator/run.py", {"docs", "measuring", "readme", "simulator", "wheel"}),
        ("deploy/nginx.conf", {"servers", "direct", "wheel"}),
        ("tests/proven.json", set()),
    ],
)
def test_a_file_counts_for_the_suites_that_reach_it(inputs: dict[str, set[str]], file: str, suites: set[str]) -> None:
    assert {name for name, files in inputs.items() if file in files} == suites


def test_what_everything_reaches_counts_for_all(inputs: dict[str, set[str]]) -> None:
    for file in ("handlers/worker/rows/plan.py", "marina/compiler/build.py", "tests/conftest.py", "pyproject.toml"):
        assert {name for name, files in inputs.items() if file in files} >= {*SUITES} - {"docs"}, file
    assert {name for name, files in inputs.items() if "requirements/cpu.txt" in files} >= CPU


def test_a_digest_changes_with_every_input_and_with_nothing_else(tmp_path: Path, inputs: dict[str, set[str]]) -> None:
    copy = tree_of(ROOT).copy(tmp_path)
    before = digests_of(copy)
    for file in ("marina/cli/check.py", "requirements/inf2.txt", "tests/chaos/test_disk.py"):
        reached = {name for name, files in inputs.items() if file in files}
        assert 0 < len(reached) < len(SUITES), file
        original = (copy.root / file).read_bytes()
        (copy.root / file).write_bytes(original + b"\n# another line\n")
        after = digests_of(copy)
        assert {name for name in SUITES if after[name] != before[name]} == reached, file
        (copy.root / file).write_bytes(original)


def test_what_a_test_begins_to_reach_counts_from_then_on(tmp_path: Path) -> None:
    copy = tree_of(ROOT).copy(tmp_path)
    test = copy.root / "tests" / "chaos" / "test_disk.py"
    for line, reached in (
        ("import marina.plan.evaluation.search\n", "marina/plan/simulator/run.py"),
        ('COMMAND = ["-m", "examples.resume_match"]\n', "examples/resume_match/__main__.py"),
        ('COMMAND = run_marina(project, "shapes")\n', "marina/cli/shapes.py"),
        ('PAGE = ROOT / "docs" / "faq.md"\n', "docs/faq.md"),
    ):
        assert reached not in Digests(copy).inputs("chaos")
        original = test.read_text()
        test.write_text(original + line)
        assert reached in Digests(copy).inputs("chaos"), line
        test.write_text(original)


def digests_of(tree: Tree) -> dict[str, str]:
    digests = Digests(tree)
    return {name: digests.of(name) for name in SUITES}


PASSES = "def test_a() -> None: pass\n"
FAILS = "def test_a() -> None: assert False\n"
SKIPS = """import pytest
def test_a() -> None: pass
@pytest.mark.skip(reason="{}")
def test_b() -> None: pass
"""


@pytest.mark.parametrize(
    ("test", "proven"),
    [
        (PASSES, True),
        (FAILS, False),
        ("import pytest\n@pytest.fixture\ndef f(): assert False\ndef test_a(f): pass\n", False),
        ("import nothing_of_that_name\n", False),
        ("", False),
        (SKIPS.format("nginx is not installed"), False),
        (SKIPS.format("control groups cannot be made here"), True),
    ],
)
def test_only_a_run_in_which_everything_passed_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, proven: bool
) -> None:
    root = suites_in(tmp_path, monkeypatch, {"one": test, "two": PASSES})
    stages = command.run(["one", "two"], {}, record=True)
    recorded = read_proofs(root)
    assert ("one" in recorded) == proven
    # a neighbour in the same run counts by itself, unless the run broke off
    assert ("two" in recorded) == ("nothing_of_that_name" not in test)
    assert any(stage.failure for stage in stages) == (test not in (PASSES, "") and "skip" not in test)
    if proven:
        assert (recorded["one"].passed, recorded["one"].digest) == (1, "digest")


def test_a_run_during_which_something_changed_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = suites_in(tmp_path, monkeypatch, {"one": PASSES})
    numbers = iter(range(9))
    monkeypatch.setattr(FixedDigests, "of", lambda *_: str(next(numbers)))
    command.run(["one"], {}, record=True)
    assert read_proofs(root) == {}


def test_what_failed_keeps_its_earlier_record_which_does_not_fit_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = suites_in(tmp_path, monkeypatch, {"one": PASSES})
    command.run(["one"], {}, record=True)
    proof = read_proofs(root)["one"]
    (root / "tests" / "test_one.py").write_text(FAILS)
    monkeypatch.setattr(FixedDigests, "of", lambda *_: "another")
    command.run(["one"], {"one": proof}, record=True)
    assert read_proofs(root) == {"one": proof}
    assert command.stale(proof, "digest") is None
    assert str(command.stale(proof, "another")).startswith("what it depends on has changed")
    assert command.stale(None, "digest") == "has not passed yet"


def test_ci_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = suites_in(tmp_path, monkeypatch, {"one": PASSES})
    command.run(["one"], {}, record=False)
    assert not (root / PROVEN).exists()


def suites_in(folder: Path, monkeypatch: pytest.MonkeyPatch, tests: dict[str, str]) -> Path:
    """A folder with suites of one file each, run by this Python, in place of the repository's; gives the folder."""
    (folder / "tests").mkdir()
    for name, text in tests.items():
        (folder / "tests" / f"test_{name}.py").write_text(text)
    for name in list(SUITES):
        monkeypatch.delitem(SUITES, name)
    for name in tests:
        monkeypatch.setitem(SUITES, name, Suite(tests=(f"tests/test_{name}.py",), stack="here", options=()))
    monkeypatch.setitem(STACKS, "here", Stack("environment", sys.executable, ()))
    monkeypatch.setattr(command, "ROOT", folder)
    monkeypatch.setattr("tests.suites.run.SIDE_BY_SIDE", ("-p", "no:randomly"))
    monkeypatch.setattr(command, "tree_of", lambda root: Tree(root, ()))
    monkeypatch.setattr(command, "make", lambda *_: Stage("environment", 0))
    monkeypatch.setattr(command, "Digests", FixedDigests)
    return folder


class FixedDigests(Digests):
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def of(self, name: str) -> str:
        return "digest"


def test_a_suite_that_ran_nothing_proves_nothing() -> None:
    assert unproven("chaos", Outcome()) == "no test ran"
    assert unproven("chaos", Outcome(passed=1, failed=1)) == "1 failed"
    assert unproven("chaos", Outcome(passed=1, skipped=["nginx is not installed"])) == "skipped: nginx is not installed"


def test_every_slow_test_is_in_a_suite() -> None:
    slow = [
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "tests").rglob("test_*.py")
        if "mark.long" in file.read_text() and file.name != "test_suites.py"
    ]
    assert len(slow) > 20
    assert [file for file in slow if not any(suite.has(file) for suite in SUITES.values())] == []


def test_runs_at_once_keep_the_proofs_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = suites_in(tmp_path, monkeypatch, {"one": PASSES, "two": PASSES})
    command.run(["one"], {}, record=True)
    command.run(["two"], {}, record=True)  # began before the first one ended
    assert set(read_proofs(root)) == {"one", "two"}
