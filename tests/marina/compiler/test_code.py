"""What of Marina's own code belongs to the key of an artifact."""

from __future__ import annotations

from pathlib import Path

import pytest

from handlers.worker.engines import ENGINES
from marina.compiler.code import deciding_modules, hash_of
from marina.engines import engines
from tests.toy_engine import FOLDER


def read(path: Path) -> str:
    return path.read_text()


def test_what_compiles_counts_and_what_only_serves_does_not() -> None:
    found = set(deciding_modules("openvino", "question-answering"))
    assert {"marina.compiler.tasks.question_answering", "marina.compiler.reference", "marina.engines.openvino"} <= found
    assert {
        "handlers.worker.rows.tokenizer",
        "handlers.worker.golden",
        "handlers.worker.tasks.question_answering",
    } <= found
    assert not found & {
        "handlers.worker.tasks.text_classification",
        "handlers.worker.tasks.token_classification",
        "marina.spec.sections",
    }
    for serving in ("telemetry.metrics", "hosts.torchserve", "model", "request.protocols", "placement.leases"):
        assert f"handlers.worker.{serving}" not in found
    assert not {
        name for name in found if name.startswith(("marina.bench", "marina.server", "marina.cli", "marina.score"))
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_counts_for_itself_alone(engine: str) -> None:
    found = set(deciding_modules(engine, "text-classification"))
    others = {
        f"{room}.{other}"
        for room in ("marina.engines", "handlers.worker.engines")
        for other in ENGINES
        if other != engine
    }
    assert {f"marina.engines.{engine}", f"handlers.worker.engines.{engine}"} <= found
    assert not found & others


def test_an_engine_of_a_package_counts_with_what_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr("marina.engines.engines", engines.__wrapped__)
    modules = set(deciding_modules("toy", "text-classification"))
    assert {"toy_engine", "toy_runtime", "marina.engines.base", "marina.engines.model"} <= modules


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
    assert keeps_the_key("marina.compiler.reference", *change) == same


def test_the_text_of_an_error_does_not_count_and_what_a_graph_computes_does() -> None:
    assert keeps_the_key("marina.compiler.tasks.text_classification", "does not fit the spec's heads", "fits no head")
    assert keeps_the_key("handlers.worker.rows.tokenizer", "the tokenizer cannot read the text", "cannot be read")
    assert not keeps_the_key("marina.compiler.tasks.wrappers", "return tuple(head(", "return tuple(-head(")
    assert not keeps_the_key("handlers.worker.tasks.activation", "0.5 * (1.0 + np.tanh", "0.4 * (1.0 + np.tanh")


def keeps_the_key(module: str, old: str, new: str) -> bool:
    """Whether a change of a module's text leaves the hash as it is."""
    modules = deciding_modules("torchscript", "text-classification")
    assert old in read(modules[module])

    def changed(path: Path) -> str:
        text = read(path)
        return text.replace(old, new, 1) if path == modules[module] else text

    return hash_of(modules, changed) == hash_of(modules, read)
