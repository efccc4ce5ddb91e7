import ast
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.standin import build_wheels

# where a distribution is not called like what is imported from it
DISTRIBUTIONS = {
    "bson": "pymongo",
    "hdrh": "hdrhistogram",
    "yaml": "pyyaml",
}
# what not every stack needs, and why
EXCEPTED = {
    "openvino": "the engine openvino, on the CPU",
    "nncf": "int8 for the engine openvino",
    "grpc": "optional, for gRPC",
    "google": "protobuf: optional, for gRPC",
    "huggingface_hub": "comes with transformers",
    "numba": "marina plan, on the CPU stack",
    "opentelemetry": "optional, for spans",
    "ray": "optional, for marina score --ray and for Ray Serve",
    "starlette": "comes with Ray Serve",
    "boto3": "of the scripts that marina deploy writes",
    "botocore": "the same",
    "options": "beside one of them",
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("stack", "python", "pins"),
    [
        ("inf1", "3.10", {"numpy": "1.23.5", "protobuf": "3.19.5", "torch": "1.13.1", "neuron-cc": "1.24.0.0"}),
        ("inf2", "3.12", {"islpy": "2023.2.5", "torch": "2.9.1", "torch-xla": "2.9.0", "neuronx-cc": "2.26.6360.0"}),
    ],
)
def test_a_neuron_stack_can_be_resolved(tmp_path: Path, stack: str, python: str, pins: dict[str, str]) -> None:
    """With stand-ins for the packages that only AWS's index has, which ask for what the real ones are known to."""
    lines = (ROOT / "requirements" / f"{stack}.txt").read_text().splitlines()
    (tmp_path / "in.txt").write_text("\n".join(line for line in lines if not line.startswith("--")))
    build_wheels(tmp_path / "wheels")
    command = [f"{sysconfig.get_path('scripts')}/uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    where = ["--find-links", str(tmp_path / "wheels"), "--python-platform", "x86_64-manylinux_2_28"]
    done = subprocess.run(
        [*command, *where, "--python-version", python, str(tmp_path / "in.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    resolved = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)
    assert {name: resolved.get(name) for name in pins} == pins
