"""The suites: which tests each has, where they run, and what they read that no import and no path in them names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# what every suite reads: the settings of pytest
SETTINGS = ("pyproject.toml",)


@dataclass(frozen=True)
class Stack:
    """A virtual environment that tests run in.

    Attributes:
        target: what `make` makes of it.
        python: its interpreter.
        requirements: files of requirements/ that are installed in it.
        version: of its Python; empty if it is the one that makes the environment.
        installed: the target of `make` that fails where that Python is missing.
        may_skip: reasons for skipping tests that belong to it, as regular expressions.
    """

    target: str
    python: str
    requirements: tuple[str, ...]
    version: str = ""
    installed: str = ""
    may_skip: tuple[str, ...] = ()


# reasons of the Neuron stacks, whose releases are older
OLD_RELEASES = (
    r"OpenVINO is not installed",
    r"this transformers has no",
    r"rows of (Albert|DistilBert)\w+ cannot be packed",
    r"needs sentence-transformers 6",
    r"release 6 rounds down",
    r"OpenTelemetry is not installed",
)
STACKS = {
    "cpu": Stack(".venv/dev", ".venv/bin/python", ("dev.txt", "demo.txt", "java.txt")),
    "inf1": Stack(
        ".venv-inf1-tests/installed",
        ".venv-inf1-tests/bin/python",
        ("inf1.txt", "test.txt", "demo.txt", "java.txt"),
        "3.10",
        "has-python310",
        OLD_RELEASES,
    ),
    "inf2": Stack(
        ".venv-inf2-tests/installed",
        ".venv-inf2-tests/bin/python",
        ("inf2.txt", "test.txt", "demo.txt", "java.txt", "xla.txt"),
        "3.12",
        "has-python312",
        (*OLD_RELEASES, r"these releases make causal masks with vmap"),
    ),
}
# may be skipped anywhere: they need rights that a container may lack, or are for the other host
MAY_SKIP = (
    r"kubectl is not installed",
    r"cannot be mounted here",
    r"control groups cannot be made here",
    r"the host direct counts its refusals itself",
)


@dataclass(frozen=True)
class Suite:
    """Some slow tests that are run, and proven, together.

    Attributes:
        tests: files and folders, or tests of a file as pytest names them.
        stack: the environment, one of STACKS.
        options: of pytest.
        files: further files and folders that the tests read.
        requirements: further files of requirements/.
        needs: further targets of `make` that come first.
        environment: variables of the tests.
    """

    tests: tuple[str, ...]
    stack: str = "cpu"
    options: tuple[str, ...] = ("-m", "long")
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def has(self, file: str) -> bool:
        """Whether a file of tests belongs to it."""
        return any(PurePosixPath(file).is_relative_to(path) for path in self.paths)

    @property
    def paths(self) -> list[str]:
        """The files and folders of its tests."""
        return [tests.partition("::")[0] for tests in self.tests]


END = "tests/end_to_end/"
TRAINED = "build/training/"
TOOLKIT = "build/sagemaker-toolkit/installed"
OLD_TORCHSERVE = "build/torchserve-0.11"
STACK_TESTS = ("tests/handlers", "tests/marina/compiler", "tests/marina/engines")
NEURON = f"{END}test_neuron.py::test_"
PIPELINES = ("a_pipeline_has_the_whole_group", "a_group_holds_as_many_copies_of_a_pipeline_as_fit")
DATA_PARALLEL = "data_parallel_cores_share_a_batch_on_the_cores_that_a_scheduler_allots"
DEMONSTRATIONS = ("models", "examples", "Makefile", "config.properties", "compile_models.py")

SUITES = {
    "readme": Suite(
        tests=(f"{END}test_readme.py", f"{END}test_examples.py"),
        files=DEMONSTRATIONS,
        needs=(
            f"{TRAINED}ava-intent",
            f"{TRAINED}product-duplicates",
            f"{TRAINED}resume-ner",
            f"{TRAINED}resume-rerank",
        ),
    ),
    # the program of an image, which only its Dockerfile names
    "images": Suite(tests=(f"{END}image",), files=("marina/container",)),
    "ray": Suite(tests=(f"{END}test_ray.py", f"{END}ray_serve")),
    "openapi": Suite(tests=(f"{END}test_openapi.py",)),
    "bulk": Suite(tests=(f"{END}test_score.py", "tests/marina/score")),
    "mongodb": Suite(
        tests=(f"{END}test_score_mongodb.py",), requirements=("mongodb.txt",), needs=("build/mongodb/installed",)
    ),
    "servers": Suite(
        tests=(
            *(
                f"{END}test_{name}.py"
                for name in (
                    "serve",
                    "failures",
                    "footprint",
                    "placement",
                    "proxy",
                    "prometheus",
                    "telemetry",
                    "bundle",
                )
            ),
            f"{END}test_torchscript.py",
            "tests/handlers/worker/answering/test_bundle.py",
        ),
        files=("deploy", "models/ava-intent.yaml", "models/resume-search.yaml", "models/torchscript-intent.yaml"),
        needs=(f"{TRAINED}ava-intent", f"{TRAINED}torchscript-intent"),
    ),
    "neuron": Suite(
        tests=(
            f"{END}test_neuron.py",
            f"{END}test_self_contained.py",
            f"{END}test_toy_engine.py",
            "tests/marina/engines",
            "tests/standin",
        )
    ),
    "measuring": Suite(
        tests=(
            f"{END}test_bench.py",
            f"{END}test_plan.py",
            "tests/benchmarks/test_quick.py",
            *(f"tests/marina/{n}" for n in ("plan", "shapes", "doctor")),
        )
    ),
    # as Python, which shows an index that is out of bounds; compiled code reads what lies there
    "simulator": Suite(tests=("tests/marina/plan/simulator",), options=(), environment={"NUMBA_DISABLE_JIT": "1"}),
    "compiling": Suite(tests=("tests/marina/compiler",)),
    "models": Suite(tests=("tests/marina/test_supported.py",)),
    "wheel": Suite(
        tests=(f"{END}test_wheel.py", "tests/marina/test_requirements.py"),
        files=("handlers", "marina", "deploy", "requirements", "README.md", "LICENSE", "config.properties"),
    ),
    "docs": Suite(
        tests=("tests/test_docs.py",),
        files=(
            "docs",
            "mkdocs.yml",
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "handlers",
            "marina",
        ),
    ),
    "chaos": Suite(
        tests=("tests/chaos",), files=("models/ava-intent.yaml", "examples/ava_intent"), needs=(f"{TRAINED}ava-intent",)
    ),
    "policies": Suite(
        tests=("tests/marina/deploy/test_policies.py",),
        files=("docs/deploy/index.md",),
        requirements=("checkov.txt",),
        needs=("build/checkov/installed",),
    ),
    # the same tests as those of TorchServe, with the other host, and its own
    "direct": Suite(
        tests=(
            *(
                f"{END}test_{name}.py"
                for name in ("direct", "serve", "failures", "footprint", "tasks", "openapi", "telemetry")
            ),
            "tests/chaos",
            "tests/marina/server/hosts/direct",
        ),
        options=("-m", "not torchserve"),
        files=("models", "examples/ava_intent"),
        needs=(f"{TRAINED}ava-intent",),
        environment={"MARINA_HOST": "direct"},
    ),
    "torchserve-images": Suite(
        tests=(f"{END}image",), files=("marina/container",), environment={"MARINA_HOST": "torchserve"}
    ),
    "sagemaker": Suite(tests=(f"{END}test_sagemaker.py",), requirements=("sagemaker-toolkit.txt",), needs=(TOOLKIT,)),
    "torchserve-0.11": Suite(
        tests=(f"{END}test_self_contained.py", f"{END}test_sagemaker.py"),
        requirements=("sagemaker-toolkit.txt", "torchserve-0.11.txt"),
        needs=(TOOLKIT, f"{OLD_TORCHSERVE}/installed"),
        environment={"MARINA_TEST_TORCHSERVE": OLD_TORCHSERVE},
    ),
    "inf1-stack": Suite(tests=(*STACK_TESTS, *(f"{NEURON}{name}" for name in PIPELINES)), stack="inf1", options=()),
    "inf2-stack": Suite(tests=(*STACK_TESTS, f"{NEURON}{DATA_PARALLEL}"), stack="inf2", options=()),
    "inf1-operators": Suite(tests=("tests/proofs/test_inf1.py",), stack="inf1", options=()),
    "xla": Suite(tests=("tests/proofs/test_xla.py",), stack="inf2", options=()),
}


def requirements_of(root: Path, names: tuple[str, ...]) -> set[str]:
    """Files of requirements/, and those that they include with -r."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        file = f"requirements/{waiting.pop()}"
        if file not in found:
            found.add(file)
            waiting += re.findall(r"^-r (\S+)", (root / file).read_text(encoding="utf-8"), re.MULTILINE)
    return found
