"""A folder is written whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from marina.deploy.folder import new_folder
from marina.errors import DeployError


def write(output: Path, fail: bool = False) -> None:
    with new_folder(output) as folder:
        (folder / "base").mkdir()
        (folder / "base" / "a").touch()
        (folder / ".dockerignore").touch()
        if fail:
            raise ValueError("stopped")


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_all_is_written_or_nothing(tmp_path: Path, there: bool) -> None:
    output = tmp_path / "some" / "out"
    if there:
        output.mkdir(parents=True)
    with pytest.raises(ValueError, match="stopped"):
        write(output, fail=True)
    assert list(output.parent.iterdir()) == ([output] if there else [])
    assert not (there and any(output.iterdir()))
    write(output)
    assert {str(path.relative_to(output)) for path in output.rglob("*")} == {"base", "base/a", ".dockerignore"}
    assert list(output.parent.iterdir()) == [output]
    with pytest.raises(DeployError, match="exists already"):
        write(output)


def test_the_current_folder_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inode = tmp_path.stat().st_ino
    (tmp_path / f".{tmp_path.name}.partial").mkdir()  # of a command that was killed
    write(Path())
    assert Path.cwd().stat().st_ino == inode
    assert {path.name for path in Path().iterdir()} == {"base", ".dockerignore"}
