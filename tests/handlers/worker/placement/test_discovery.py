from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.errors import PlacementError
from handlers.worker.placement import discovery
from handlers.worker.placement.discovery import cores_of_devices, cores_of_sysfs, neuron_cores

JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def neuron_ls(folder: Path, prints: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a neuron-ls on the path that prints something."""
    program = folder / "neuron-ls"
    program.write_text(f"#!/bin/sh\ncat <<'X'\n{prints}\nX\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.delenv(discovery.VISIBLE_CORES, raising=False)


def test_core_numbers_are_neuron_ls_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [
        {"neuron_device": 0, "nc_count": 2, "neuroncore_ids": [4, 5]},
        {"neuron_device": 1, "neuroncore_ids": [6]},
    ]
    neuron_ls(tmp_path, json.dumps(devices), monkeypatch)
    assert neuron_cores() == (4, 5, 6)


def test_without_numbers_they_are_counted() -> None:
    assert cores_of_devices([{"neuron_device": 1, "nc_count": 4}]) == (4, 5, 6, 7)


@given(JSON)
def test_whatever_neuron_ls_prints_is_no_error(printed: Any) -> None:
    assert isinstance(cores_of_devices(printed), tuple)
    assert isinstance(cores_of_devices([printed]), tuple)


def test_a_table_is_not_read_and_the_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    neuron_ls(tmp_path, "+--------+\n| NEURON |", monkeypatch)
    for number in (0, 1):
        device = tmp_path / "sysfs" / f"neuron{number}"
        device.mkdir(parents=True)
        (device / "core_count").write_text("2\n")
    for name in ("neuron1", "neuron0"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    monkeypatch.setattr(discovery, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(discovery, "SYSFS", tmp_path / "sysfs")
    assert neuron_cores() == (0, 1, 2, 3)
    (tmp_path / "dev" / "neuron0").unlink()  # not passed to this container
    assert neuron_cores() == (2, 3)


def test_unreadable_counts_are_left_out(tmp_path: Path) -> None:
    for name, text in (("neuron0", "2"), ("neuron1", "many"), ("neuronx", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "core_count").write_text(text)
    assert cores_of_sysfs(tmp_path, tmp_path) == (0, 1)


def test_what_a_scheduler_allots_is_not_questioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    neuron_ls(tmp_path, "[]", monkeypatch)
    monkeypatch.setenv(discovery.VISIBLE_CORES, "2,3")
    assert neuron_cores() == (2, 3)
    monkeypatch.setenv(discovery.VISIBLE_CORES, "two")
    with pytest.raises(PlacementError, match="NEURON_RT_VISIBLE_CORES: 'two' is not a list of cores"):
        neuron_cores()


def test_without_a_device_it_says_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    neuron_ls(tmp_path, "[]", monkeypatch)
    monkeypatch.setattr(discovery, "SYSFS", tmp_path / "none")
    with pytest.raises(PlacementError, match=r"no NeuronCore found.*aws-neuronx-dkms"):
        neuron_cores()
