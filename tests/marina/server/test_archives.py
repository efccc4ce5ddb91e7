"""The archives of the model store, and those that are kept."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from marina.archive.footprint import Footprint, read_footprint, write_footprint
from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import find_archives, in_model_store, keep_copy, kept_copies, put_back


def store(project: Project, name: str, content: str, ready_s: float | None = None) -> Path:
    """Write an archive as `pack` does: under another name first; it may have been measured."""
    path = project.model_store / f"{name}.mar"
    temporary = project.model_store / ".new"
    with zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr("content", content)
        archive.comment = content.encode()
    footprint = None if ready_s is None else Footprint(1, 2, 3, ready_s, 2, "any")
    write_footprint(path, content, footprint)
    return temporary.replace(path)


def start_of(path: Path) -> float | None:
    """Seconds that a worker of an archive was measured to need."""
    footprint = read_footprint(path)
    return footprint.ready_s if footprint else None


def content_of(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("content").decode()


def test_archives_are_found_by_name_or_all(project: Project) -> None:
    one, two = store(project, "a", "1"), store(project, "b", "2")
    assert find_archives(project, ["b"]) == [two]
    assert find_archives(project, ["b", "a", "b"]) == [two, one]
    with in_model_store(project, one), (project.model_store / ".hidden.mar").open("w"):
        assert find_archives(project, []) == [one, two]


def test_only_listed_archives_are_trusted(project: Project, tmp_path: Path) -> None:
    path = store(project, "a", "1")
    listed = tmp_path / "trusted"
    listed.write_bytes(subprocess.run(["sha256sum", path], capture_output=True, check=True).stdout)
    assert find_archives(project, ["a"], str(listed)) == [path]
    store(project, "a", "2")
    with pytest.raises(ServerError, match=r"a\.mar is not among the trusted archives of .*; an archive is code"):
        find_archives(project, ["a"], str(listed))
    with pytest.raises(ServerError, match="missing with the trusted archives cannot be read"):
        find_archives(project, ["a"], str(tmp_path / "missing"))


def test_the_archive_before_is_kept_and_comes_back(project: Project) -> None:
    current, previous = kept_copies(project, "a")
    for content in "123":
        keep_copy(project, store(project, "a", content, ready_s=float(content)))
        keep_copy(project, project.model_store / "a.mar")  # once more changes nothing
    assert (content_of(current), content_of(previous)) == ("3", "2")
    # a file that is written anew in place is not the one that was served
    (project.model_store / "a.mar").write_bytes(b"")
    assert content_of(current) == "3"
    put_back(project, previous)
    keep_copy(project, project.model_store / "a.mar")
    assert content_of(project.model_store / "a.mar") == content_of(current) == "2"
    assert content_of(previous) == "3"
    assert sorted(path.name for path in project.model_store.iterdir()) == ["a.footprint.json", "a.mar"]
    assert [start_of(path) for path in (project.model_store / "a.mar", current, previous)] == [2.0, 2.0, 3.0]


def test_an_archive_that_was_served_from_its_kept_copy_keeps_its_footprint(project: Project) -> None:
    current, previous = kept_copies(project, "a")
    for content in "12":
        keep_copy(project, store(project, "a", content, ready_s=float(content)))
    keep_copy(project, previous)
    assert [(content_of(path), start_of(path)) for path in (current, previous)] == [("1", 1.0), ("2", 2.0)]
    keep_copy(project, store(project, "a", "3"))
    assert (start_of(current), start_of(previous)) == (None, 1.0)
    keep_copy(project, store(project, "a", "3", ready_s=3.0))
    assert (start_of(current), start_of(previous)) == (3.0, 1.0)


def test_an_archive_from_elsewhere_is_in_the_store_only_while_it_is_registered(project: Project) -> None:
    keep_copy(project, store(project, "a", "1"))
    (project.model_store / "a.mar").unlink()
    with in_model_store(project, kept_copies(project, "a").current) as name:
        assert content_of(project.model_store / name) == "1"
    assert list(project.model_store.iterdir()) == []
