"""Versions stand for Marina's own code in the key of an artifact; code that changes needs a decision."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from handlers.worker.engines import ENGINES
from marina.compiler import cache
from marina.compiler.cache import artifact_key
from marina.compiler.job import prepare_job
from marina.engines import engine_of
from marina.project import Project
from marina.spec import read_spec
from tests import compiled_code
from tests.compiled_code import RECORD, Versioned, deciding_modules, digest_of, main, read, versioned_code


def test_code_that_changed_has_a_decision() -> None:
    recorded = json.loads(read(RECORD))
    code = versioned_code()
    assert recorded.keys() == code.keys(), "run python -m tests.compiled_code"
    for name, (version, place, modules) in code.items():
        assert {"version": version, "digest": digest_of(modules)} == recorded[name], (
            f"the code of the {name} has changed. If graphs, answers or files of artifacts become others, raise its "
            f"version ({place}), and run python -m tests.compiled_code; else add --unchanged"
        )


def test_a_decision_is_a_raised_version_or_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code.py").write_text("GRAPHS = 1")

    def record(version: int, *arguments: str) -> int:
        code = {"compiler": Versioned(version, "cache.py", {"code": tmp_path / "code.py"})}
        monkeypatch.setattr(compiled_code, "versioned_code", lambda: code)
        return main([*arguments])

    monkeypatch.setattr(compiled_code, "RECORD", tmp_path / "record.json")
    assert record(1) == 0
    (tmp_path / "code.py").write_text("GRAPHS = 2")
    before = compiled_code.RECORD.read_text()
    assert record(1) == 1
    assert compiled_code.RECORD.read_text() == before
    assert record(2) == 0
    (tmp_path / "code.py").write_text("GRAPHS = 3")
    assert record(2, "--unchanged") == 0
    assert record(2) == 0


def test_each_version_is_in_the_key(project: Project, add_tiny: object, monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepare_job(read_spec(add_tiny("m")), project.root)  # type: ignore[operator]
    keys = {artifact_key(job)}
    with monkeypatch.context() as patch:
        patch.setattr(cache, "COMPILER_VERSION", 1_000)
        keys.add(artifact_key(job))
    for task in (job.spec.task, "tensors"):
        with monkeypatch.context() as patch:
            patch.setattr(cache, "TASK_VERSIONS", {task: 1_000})
            keys.add(artifact_key(job))
    with monkeypatch.context() as patch:
        patch.setattr(type(job.engine), "version", 1_000)
        keys.add(artifact_key(job))
    assert len(keys) == 4
    assert artifact_key(job) in keys


def test_what_compiles_counts_and_what_only_serves_does_not() -> None:
    code = versioned_code()
    compiler, task = set(code["compiler"].modules), set(code["task question-answering"].modules)
    assert {"marina.compiler.build", "marina.compiler.reference", "handlers.worker.tokens.tokenizer"} <= compiler
    assert {"handlers.worker.members.golden", "marina.compiler.precision.trials"} <= compiler
    assert {"marina.compiler.tasks.question_answering", "handlers.worker.tasks.question_answering"} <= task
    counted = {name for versioned in code.values() for name in versioned.modules}
    for serving in (
        "telemetry.metrics",
        "hosts.torchserve",
        "answering.model",
        "request.protocols",
        "placement.leases",
    ):
        assert f"handlers.worker.{serving}" not in counted
    serving_rooms = ("marina.bench", "marina.server", "marina.cli", "marina.score", "marina.spec.sections")
    assert not {name for name in counted if name.startswith(serving_rooms)}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_counts_for_itself_alone(engine: str) -> None:
    code = versioned_code()
    files = {f"marina.engines.{engine}", f"handlers.worker.engines.{engine}"}
    assert files <= set(code[f"engine {engine}"].modules)
    assert not files & {name for other in code if other != f"engine {engine}" for name in code[other].modules}
    assert engine_of(engine).version == code[f"engine {engine}"].version


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("", "# a comment\n"), True),
        (('    """', '    """Said in other words. '), True),
        (
            (
                "MAX_GOLDEN_ROWS = 8  # maximum number of rows stored in the artifact",
                "MAX_GOLDEN_ROWS = 8  # of the rows",
            ),
            True,
        ),
        (("MAX_GOLDEN_ROWS = 8", "MAX_GOLDEN_ROWS = 9"), False),
    ],
)
def test_comments_do_not_count_and_code_does(change: tuple[str, str], same: bool) -> None:
    assert needs_no_decision("marina.compiler.reference", *change) == same


def test_the_text_of_an_error_does_not_count_and_what_a_graph_computes_does() -> None:
    assert needs_no_decision(
        "marina.compiler.tasks.text_classification", "does not fit the spec's heads", "fits no head"
    )
    assert needs_no_decision("handlers.worker.tokens.tokenizer", "the tokenizer cannot read the text", "cannot be read")
    assert not needs_no_decision("marina.compiler.tasks.wrappers", "return tuple(head(", "return tuple(-head(")
    assert not needs_no_decision("handlers.worker.tasks.activation", "0.5 * (1.0 + np.tanh", "0.4 * (1.0 + np.tanh")


def test_empty_parts_of_texts_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text('f"{x:>{w}}"')
    tree = ast.parse((tmp_path / "code.py").read_text(), mode="eval").body
    assert isinstance(tree, ast.JoinedStr)
    with_empty_part = ast.JoinedStr([*tree.values, ast.Constant("")])
    assert compiled_code._dump(tree) == compiled_code._dump(with_empty_part)


def needs_no_decision(module: str, old: str, new: str) -> bool:
    """Whether a change of a module's text leaves the digest as it is."""
    modules = deciding_modules("torchscript", "text-classification")
    assert old in read(modules[module])

    def changed(path: Path) -> str:
        text = read(path)
        return text.replace(old, new, 1) if path == modules[module] else text

    return digest_of(modules, changed) == digest_of(modules)
