from __future__ import annotations

import json
from collections.abc import Callable
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


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends an instance by what the driver and the machine say of it; `neuron-ls` prints no JSON."""

    def make(kind: str, devices: int, cores: int) -> None:
        neuron_ls(tmp_path, "+--------+\n| NEURON |", monkeypatch)
        for folder in ("dev", "sysfs"):
            (tmp_path / folder).mkdir()
        for number in range(devices):
            (tmp_path / "sysfs" / f"neuron{number}").mkdir()
            (tmp_path / "sysfs" / f"neuron{number}" / "core_count").write_text(f"{cores}\n")
            (tmp_path / "dev" / f"neuron{number}").touch()
        (tmp_path / "product").write_text(f"{kind}\n")
        monkeypatch.setattr(discovery, "DEVICES", tmp_path / "dev")
        monkeypatch.setattr(discovery, "SYSFS", tmp_path / "sysfs")
        monkeypatch.setattr(discovery, "PRODUCT", tmp_path / "product")
        monkeypatch.setattr(discovery, "LOGICAL_CORES_FILE", tmp_path / "logical_nc_config")

    return make


# AWS's pages on the instances; the driver counts physical cores, and the runtime logical ones
@pytest.mark.parametrize(
    ("kind", "devices", "cores", "usable"),
    [
        ("inf1.xlarge", 1, 4, 4),
        ("inf1.24xlarge", 16, 4, 64),
        ("inf2.xlarge", 1, 2, 2),
        ("inf2.48xlarge", 12, 2, 24),
        ("trn1.2xlarge", 1, 2, 2),
        ("trn1.32xlarge", 16, 2, 32),
        ("trn2.3xlarge", 1, 8, 4),
        ("trn2.48xlarge", 16, 8, 64),
    ],
)
def test_the_cores_of_instances(
    instance: Callable[..., None], kind: str, devices: int, cores: int, usable: int
) -> None:
    instance(kind, devices, cores)
    assert neuron_cores() == tuple(range(usable))


def test_logical_cores_are_as_the_instance_is_set(
    instance: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance("trn2.3xlarge", 1, 8)
    (tmp_path / "logical_nc_config").write_text("NEURON_LOGICAL_NC_CONFIG=1")
    assert neuron_cores() == tuple(range(8))
    monkeypatch.setenv(discovery.LOGICAL_CORES, "2")
    assert neuron_cores() == tuple(range(4))
    monkeypatch.setenv(discovery.LOGICAL_CORES, "3")
    with pytest.raises(PlacementError, match="NEURON_LOGICAL_NC_CONFIG: 3 is not 1 or 2"):
        neuron_cores()


def test_a_container_has_the_devices_that_were_passed_to_it(instance: Callable[..., None], tmp_path: Path) -> None:
    instance("inf2.8xlarge", 2, 2)
    (tmp_path / "dev" / "neuron0").unlink()
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
