import ast
import re
import sys

import pytest

from tests.conftest import ROOT

# where a distribution is not called like what is imported from it
DISTRIBUTIONS = {"hdrh": "hdrhistogram", "model_archiver": "torch-model-archiver", "ts": "torchserve", "yaml": "pyyaml"}
# what not every stack needs, and why
EXCEPTED = {
    "openvino": "the engine openvino, on the CPU",
    "nncf": "int8 for the engine openvino",
    "torch_neuron": "the engine neuron, on Inf1",
    "torch_neuronx": "the engine neuronx, on Inf2 and Trn1",
    "grpc": "optional, for gRPC",
    "google": "protobuf: optional, for gRPC",
    "huggingface_hub": "comes with transformers",
    "fastapi": "a peer of `marina bench peers`, which has an environment of its own",
    "litserve": "another one",
}


def imported() -> dict[str, str]:
    """Every third-party package that marina or handlers import anywhere, with a file that does."""
    found: dict[str, str] = {}
    for path in sorted([*(ROOT / "marina").rglob("*.py"), *(ROOT / "handlers").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            for name in names:
                found.setdefault(name.split(".")[0], str(path.relative_to(ROOT)))
    own = {"marina", "handlers", *sys.stdlib_module_names}
    return {name: path for name, path in found.items() if name not in own}


def named(file: str) -> set[str]:
    """The distributions that a file of requirements, or pyproject.toml, names."""
    text = (ROOT / file).read_text()
    if file == "pyproject.toml":
        lists = text.split("\n[project]\n")[1].split("\n[project.scripts]\n")[0]
        return {normal(name) for name in re.findall(r'"([A-Za-z0-9][\w.-]*)', lists)}
    found = re.findall(r'^\s*"?([A-Za-z0-9][\w.-]*)', text, re.MULTILINE)
    return {normal(name) for name in found}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    "file", ["requirements/cpu.txt", "requirements/inf1.txt", "requirements/inf2.txt", "pyproject.toml"]
)
def test_what_is_imported_is_installed(file: str) -> None:
    there = named(file)
    assert {"torchserve", "numpy"} <= there
    needed = {name: path for name, path in imported().items() if name not in EXCEPTED}
    missing = {
        f"{name}, for {path}" for name, path in needed.items() if normal(DISTRIBUTIONS.get(name, name)) not in there
    }
    assert not missing, f"{file} lacks {sorted(missing)}"


def test_the_lists_of_this_test_are_of_use() -> None:
    assert {*DISTRIBUTIONS, *EXCEPTED} <= set(imported())
