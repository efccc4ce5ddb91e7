from __future__ import annotations

import errno
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.archive.artifact import ARTIFACT_FOLDER, CONFIG_FILE, MANIFEST
from handlers.worker.archive.unpack import PARTIAL, private_folder, unpack
from handlers.worker.errors import ArtifactError

FILES = {CONFIG_FILE: "a: 1", MANIFEST: "{}", f"{ARTIFACT_FOLDER}/artifact.json": "{}", "handlers/model.py": "code"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "m.mar"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in FILES.items():
            file.writestr(name, content)
    return path


def test_the_artifact_and_the_settings_are_unpacked(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path / "out" / "m")
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    unpacked = [f"m/{name}" for name in FILES if not name.startswith("handlers/")]
    assert files == sorted([".unpacking.lock", *unpacked])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / CONFIG_FILE).write_text("b: 2"),
        lambda folder: (folder / CONFIG_FILE).write_text("short"),
        lambda folder: (folder / ARTIFACT_FOLDER / "artifact.json").unlink(),
    ],
)
def test_a_damaged_folder_is_unpacked_again(archive: Path, tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    folder = tmp_path / "out" / "m"
    unpack(archive, folder)
    damage(folder)
    left = folder.with_name(f".other{PARTIAL}")
    left.mkdir()
    unpack(archive, folder)
    assert (folder / CONFIG_FILE).read_text() == "a: 1"
    assert (folder / ARTIFACT_FOLDER / "artifact.json").is_file()
    assert not left.exists()


def test_what_is_no_archive_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.mar").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.mar", "w") as file:
        file.writestr("a", "b")
    for name in ("text.mar", "other.mar"):
        with pytest.raises(ArtifactError, match=f"{name} is not an archive of Marina"):
            unpack(tmp_path / name, tmp_path / "out" / "m")


def test_a_full_disk_is_named(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)
    with pytest.raises(OSError, match=r"No space left on device: .*\.m\.partial"):
        unpack(archive, tmp_path / "out" / "m")


def test_code_is_unpacked_where_nobody_else_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = private_folder("marina-test")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_folder("marina-test") == folder
    folder.chmod(0o770)
    with pytest.raises(ArtifactError, match="is not a folder that only the user"):
        private_folder("marina-test")
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="set TMPDIR to a folder of your own"):
        private_folder("marina-test")


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(ArtifactError, match="only the user 12345"):
        private_folder("marina-test")
