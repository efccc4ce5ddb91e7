"""Artifacts that nothing needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from marina.archive.pack import pack
from marina.compiler import compile_model
from marina.compiler.unused import unused_artifacts
from marina.errors import SourceError
from marina.project import Project
from marina.spec import Spec, read_spec
from tests.conftest import no_progress


def unchanged(spec: Spec) -> Spec:
    return spec


def test_what_an_archive_a_spec_or_a_plan_needs_is_kept(project: Project, add_tiny: Callable[..., Path]) -> None:
    path = add_tiny("m", shapes={"exact": ["1x8"]})
    folders = []
    for shape in ("1x8", "1x16", "1x24", "1x32"):
        spec = read_spec(path, {"shapes": {"exact": [shape]}})
        folders.append(compile_model(spec, project, no_progress).folder)
        if shape == "1x16":
            pack(spec, folders[-1], project.model_store)
    calibration = folders[2].with_name(f"{folders[2].name}.direct.calibration.json")
    calibration.write_text("{}")
    (project.artifacts / "m" / "unfinished.partial").mkdir()

    (only,) = unused_artifacts(project, {"m": read_spec(path)}, unchanged)
    assert (only.model, only.folder) == ("m", folders[3])
    assert only.size > 1000
    calibration.unlink()
    unused = unused_artifacts(project, {}, unchanged)
    assert [artifact.folder for artifact in unused] == sorted([folders[0], *folders[2:]])
    broken = read_spec(path, {"source": {"path": "gone"}})
    assert unused_artifacts(project, {"m": broken}, unchanged) == []  # what it would use cannot be told

    def refuse(spec: Spec) -> Spec:
        raise SourceError(f"{spec.name}: the weights are missing")

    assert unused_artifacts(project, {"m": read_spec(path)}, refuse) == []
