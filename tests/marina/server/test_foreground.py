"""What `marina serve --foreground` keeps of its environment."""

from __future__ import annotations

import os
import sys

import pytest

from marina.server.foreground import drop_secrets


class Started(Exception):
    """In place of a program that was started."""


def test_options_that_are_variables_outlive_the_second_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def execve(program: str, arguments: list[str], environment: dict[str, str]) -> None:
        raise Started(program, arguments, environment)

    options = {"MARINA_HOST": "direct", "MARINA_PORT_OFFSET": "1000", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", {**options, "HF_TOKEN": "hf-secret", "MARINA_TOKEN": "secret"})
    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(sys, "argv", ["marina", "serve", "--foreground"])
    monkeypatch.setattr("marina.server.foreground.serving_env", lambda: {"PATH": "/bin"})
    with pytest.raises(Started) as started:
        drop_secrets()
    assert started.value.args == (sys.executable, [sys.executable, "-m", "marina", "serve", "--foreground"], options)

    monkeypatch.setattr(os, "environ", options)  # the second start is the last
    drop_secrets()
