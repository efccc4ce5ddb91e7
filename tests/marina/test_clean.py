"""`marina clean` removes artifacts that nothing needs, and leaves those that may be about to be packed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from marina.compiler import compile_model
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import no_progress
from tests.end_to_end.conftest import run_marina


def test_new_artifacts_are_left(project: Project, add_tiny: Callable[..., Path]) -> None:
    path = add_tiny("m", shapes={"exact": ["1x8"]})
    old, new = (
        compile_model(read_spec(path, {"shapes": {"exact": [shape]}}), project, no_progress).folder
        for shape in ("1x16", "1x24")
    )
    assert "every artifact is needed, or was compiled in the last hour" in run_marina(project, "clean", "--yes").stdout
    yesterday = time.time() - 24 * 3600
    os.utime(old, (yesterday, yesterday))
    assert "1 artifact," in run_marina(project, "clean").stdout
    assert old.is_dir()
    assert "removed 1 artifact," in run_marina(project, "clean", "--yes").stdout
    assert not old.exists()
    assert new.is_dir()
