"""Compiles one graph of every task with the real Neuron SDK, which needs no device: `make test-neuron-sdk STACK=inf2`.

For people who can reach AWS's package index. It was only run against the stand-in for the SDK here.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from handlers.worker.archive.artifact import ARTIFACT_FILE, check_files, read_artifact, read_json
from marina.compiler import compile_model
from marina.engines import engine_of
from marina.errors import MarinaError
from marina.spec import make_spec
from tests.conftest import make_project, no_progress
from tests.handlers.worker.tasks.architectures import SUFFIXES, save_model

ARCHITECTURES = ("bert", "roberta")
SHAPE = "2x32"


def main(engine: str) -> None:
    """Print a line for each model; exit with status 1 if one cannot be compiled."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "project")
        for architecture in ARCHITECTURES:
            for task in SUFFIXES:
                name = f"{architecture}-{task}"
                weights = save_model(Path(folder) / name, architecture, task)
                fields = {"name": name, "task": task, "engine": engine, "source": {"path": str(weights)}}
                spec = make_spec({**fields, "shapes": {"exact": [SHAPE]}})
                try:
                    compiled = compile_model(spec, project, no_progress)
                    artifact = read_artifact(compiled.folder)
                    check_files(artifact)
                    recorded = read_json(compiled.folder / ARTIFACT_FILE)
                    remarks = engine_of(engine).remarks(artifact.compiler, recorded["graphs"])
                except MarinaError as error:
                    failed += 1
                    print(f"{name:40} FAILED  {error}", flush=True)
                else:
                    print(f"{name:40} compiled  {'; '.join(remarks)}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1])
