"""What an image installs; tests/end_to_end/image has the checksums of the package index."""

from __future__ import annotations

import re
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest

from marina.archive.describe import Archive
from marina.deploy.image import deploy_image
from marina.deploy.image.lock import with_checksums, with_dependencies
from marina.errors import DeployError
from marina.project import Project
from tests.conftest import ROOT


def installed(folder: Path, name: str, *requirements: str) -> None:
    """Make a package whose metadata says what it needs."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    lines = [f"Requires-Dist: {requirement}" for requirement in requirements]
    metadata.write_text("\n".join(["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *lines, ""]))


def test_dependencies_come_in_the_versions_that_are_installed() -> None:
    locked = with_dependencies({"requests": "2.0", "PyYAML": "6.0"}, "3.13")
    assert (locked["requests"], locked["pyyaml"]) == ("2.0", "6.0")
    assert locked["urllib3"] == version("urllib3")
    assert list(locked) == sorted(locked)


def test_conditions_are_those_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("new", "mac", "extra", "deep", "plain"):
        installed(tmp_path, f"needed-{name}", *(["needed-deep"] if name == "extra" else []))
    installed(
        tmp_path,
        "needs",
        'needed-new; python_version >= "3.13"',
        'needed-mac; sys_platform == "darwin"',
        'needed-extra; extra == "more"',
        "needed-plain",
    )
    installed(tmp_path, "wants", "needs[more]")
    assert set(with_dependencies({"needs": "1.0"}, "3.13")) == {"needs", "needed-new", "needed-plain"}
    assert set(with_dependencies({"needs": "1.0"}, "3.12")) == {"needs", "needed-plain"}
    more = {"wants", "needs", "needed-extra", "needed-deep", "needed-plain"}
    assert set(with_dependencies({"wants": "1.0"}, "3.12")) == more
    # also if it is listed itself
    assert set(with_dependencies({"needs": "1.0", "wants": "1.0"}, "3.12")) == more
    assert set(with_dependencies({"needs": "1.0", "wants": "1.0"}, "3.12", alone=["needs"])) == {"needs", "wants"}


def test_a_dependency_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(tmp_path, "needs", "nowhere-to-be-seen")
    with pytest.raises(DeployError, match="needs needs nowhere-to-be-seen, which is not installed here"):
        with_dependencies({"needs": "1.0"}, "3.13")
    with pytest.raises(DeployError, match="the image needs nowhere-to-be-seen, which is not installed here"):
        with_dependencies({"nowhere-to-be-seen": "1.0"}, "3.13")


def test_without_an_index_there_are_no_checksums(
    archives: list[Archive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert with_checksums({"requests": "2.32.0"}, "3.13") is None
    assert not deploy_image(Project(ROOT), archives, tmp_path / "image", mounted=True)
    lines = (tmp_path / "image" / "requirements.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==\S+", line) for line in lines)
    assert f"uvicorn=={version('uvicorn')}" in lines
    assert f"h11=={version('h11')}" in lines
    assert "With uv," in (tmp_path / "image" / "README.md").read_text()
    for said, raises in (("error: Failed to fetch: `https://index/simple/`", False), ("no wheels for cp313", True)):
        uv = tmp_path / "uv"
        uv.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{said}' >&2\nexit 1\n")
        uv.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", str(tmp_path / "python"))
            with pytest.raises(DeployError, match="no wheels for cp313") if raises else nullcontext():
                assert with_checksums({"requests": "2.32.0"}, "3.13") is None
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert with_checksums({"requests": "2.32.0"}, "3.13") is None
