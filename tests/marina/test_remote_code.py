import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("benchmarks", "examples", "handlers", "marina")
LOADERS = {"from_pretrained", "from_config", "pipeline", "SentenceTransformer", "SparseEncoder", "CrossEncoder"}
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def loads(path: Path) -> list[ast.Call]:
    """The calls of a file that load a model, a tokenizer or a configuration with transformers."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [call for call in calls if (getattr(call.func, "attr", None) or getattr(call.func, "id", None)) in LOADERS]


@pytest.mark.parametrize("path", [path for path in FILES if loads(path)], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_that_comes_with_weights_is_run(path: Path) -> None:
    for call in loads(path):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        where = f"{path}:{call.lineno}: {ast.unparse(call)}"
        assert given.get("trust_remote_code") == "False", f"{where} lacks trust_remote_code=False"


def test_calls_are_found() -> None:
    assert sum(len(loads(path)) for path in FILES) >= 10
