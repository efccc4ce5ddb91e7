"""What the doctor says of an instance: each missing step has the command that cures it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from handlers.worker.engines import packages
from handlers.worker.engines.neuronx import SDK, check_target
from handlers.worker.engines.releases import NO_TRN3
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import discovery
from marina.engines import neuron, neuronx
from marina.engines.neuroncores import host as neuron_host
from marina.engines.neuroncores.host import (
    check_device_memory,
    check_limits,
    check_machine,
    check_memory,
    check_programs,
)
from marina.errors import CompileError
from marina.findings import Finding
from tests.standin import PROGRAMS, standin_environment

Machine = Callable[..., dict[str, Finding]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Findings on a pretended machine with 4 cores, by their checks."""

    def make(engine: Any, kind: str = "", driver: str = "", devices: int = 0, **environment: str) -> dict[str, Finding]:
        for name, value in {**standin_environment(tmp_path / "host", 4), **environment}.items():
            monkeypatch.setenv(name, value)
        for path, content in (("product", kind), ("version", driver)):
            (tmp_path / path).write_text(f"{content}\n")
        (tmp_path / "dev").mkdir(exist_ok=True)
        for number in range(devices):
            (tmp_path / "dev" / f"neuron{number}").write_text("")
        monkeypatch.setattr(discovery, "PRODUCT", tmp_path / "product")
        monkeypatch.setattr(neuron_host, "DRIVER_VERSION", tmp_path / "version")
        monkeypatch.setattr(neuron_host, "DEVICES", tmp_path / "dev")
        monkeypatch.setattr(neuron_host, "RUNTIME_LIBRARIES", tmp_path / "lib")
        return {finding.check: finding for finding in check_machine(engine.sdk, engine.host)}

    return make


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes packages appear in these versions."""

    def make(**found: str) -> None:
        named = {name.replace("_", "-"): version for name, version in found.items()}
        monkeypatch.setattr(packages, "installed", named.get)
        monkeypatch.setattr(neuron_host, "installed", named.get)

    return make


def test_an_instance_that_has_everything(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnrt.so.1").write_text("")
    found = machine(neuronx.ENGINE, "inf2.xlarge", "2.29.0.0", devices=1)
    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["Neuron devices"].found == "1, each can be opened"
    assert found["NeuronCores"].found == "4: 0,1,2,3"


def test_each_missing_step_has_its_command(machine: Machine) -> None:
    found = machine(neuronx.ENGINE, "inf2.xlarge")
    assert "aws-neuronx-dkms=2.29.*" in found["Neuron driver"].fix
    assert "aws-neuronx-runtime-lib=2.33.*" in found["Neuron runtime"].fix
    assert "--device=/dev/neuron0" in found["Neuron devices"].fix
    assert "aws-neuronx-dkms=2.24.*" in machine(neuron.ENGINE, "inf1.xlarge")["Neuron driver"].fix
    assert "Neuron runtime" not in machine(neuron.ENGINE, "inf1.xlarge")


def test_the_other_engines_instance_and_a_driver_without_inf1_are_refused(machine: Machine) -> None:
    found = machine(neuron.ENGINE, "inf2.xlarge", "2.29.0.0")
    assert found["instance"].state == "fails"
    found = machine(neuron.ENGINE, "inf1.xlarge", "2.30.2.0")
    assert (found["instance"].state, found["Neuron driver"].state) == ("ok", "fails")
    assert found["Neuron driver"].fix == "sudo apt-get install 'aws-neuronx-dkms=2.24.*'"


@pytest.mark.parametrize(
    ("driver", "runtime", "state"),
    [
        ("2.29.0.0", "2.33.10.0", "ok"),
        ("2.30.2.0", "2.34.10.0", "ok"),
        ("2.27.4.0", "2.31.24.0", "ok"),
        ("2.19.64.0", "2.23.112.0", "ok"),  # as SageMaker's hosts have it, with the runtime of the same release
        ("2.19.64.0", "2.33.10.0", "fails"),
        ("2.26.10.0", "2.32.31.0", "fails"),
        ("2.29.0.0", "2.32.31.0", "fails"),
        ("2.29.0.0", "", "ok"),  # it was installed without a package
        ("", "2.33.10.0", "ok"),  # another finding says that the driver is missing
    ],
)
def test_a_driver_and_a_runtime_must_fit(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, runtime: str, state: str
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnrt.so.1").write_text("")
    monkeypatch.setattr(neuron_host, "runtime_version", lambda: runtime)
    finding = machine(neuronx.ENGINE, "inf2.xlarge", driver, devices=1)["Neuron runtime"]
    assert finding.state == state
    if state == "fails":
        assert driver in finding.found
        assert runtime in finding.found
        assert "aws-neuronx-dkms=2.29.*" in finding.fix
        assert "aws-neuronx-runtime-lib=2.33.*" in finding.fix


def test_a_device_that_may_not_be_opened(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    own = neuron_host._open_error
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert own(tmp_path / "dev" / "neuron0") == 13
    monkeypatch.setattr(neuron_host, "_open_error", lambda _: 13)
    finding = machine(neuronx.ENGINE, devices=2)["Neuron devices"]
    assert finding.state == "fails"
    assert f"may not be opened by user {os.getuid()}" in finding.found
    assert "sudo usermod -aG neuron $USER" in finding.fix
    monkeypatch.setattr(neuron_host, "_open_error", lambda _: 19)
    assert machine(neuronx.ENGINE)["Neuron devices"].fix == "sudo rmmod neuron; sudo modprobe neuron"


def test_groups_are_added_up(machine: Machine) -> None:
    finding = machine(neuronx.ENGINE, NEURONCORE_GROUP_SIZES="3,4,1")["NEURONCORE_GROUP_SIZES"]
    assert (finding.state, finding.found) == ("fails", "3,4,1 on 4 cores")


def test_versions_that_are_known_to_fail(versions: Callable[..., None]) -> None:
    versions(islpy="2026.2.1", numpy="1.25.2", protobuf="4.25.0")
    (finding,) = check_limits(neuronx.ENGINE.host)
    assert (finding.check, finding.fix) == ("islpy", "pip install 'islpy<2026.2'")
    assert "NCC_ISMP902" in finding.found
    assert {finding.check for finding in check_limits(neuron.ENGINE.host)} == {"numpy", "protobuf"}
    versions(islpy="2023.2.5", numpy="1.23.5", protobuf="3.19.5")
    assert [*check_limits(neuronx.ENGINE.host), *check_limits(neuron.ENGINE.host)] == []


def test_programs_are_looked_for(versions: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    versions(torch_neuronx="2.9.0.2.15.32035", neuronx_cc="2.26.6360.0")
    monkeypatch.setenv("PATH", "/usr/bin")
    missing = check_programs(SDK)
    assert [(finding.check, finding.state) for finding in missing] == [
        ("libneuronpjrt-path (program)", "fails"),
        ("neuronx-cc (program)", "fails"),
    ]
    assert "install its packages once more: pip install" in missing[0].fix
    monkeypatch.setenv("PATH", str(PROGRAMS))
    assert {finding.state for finding in check_programs(SDK)} == {"ok"}
    versions(neuronx_cc="2.26.6360.0")  # for compiling with another Python
    assert check_programs(SDK) == []


def test_little_memory_is_a_reason_to_compile_elsewhere() -> None:
    assert check_memory(16_000_000_000).state == "ok"
    note = check_memory(7_000_000_000)
    assert (note.state, "compile on a larger machine" in note.fix) == ("note", True)


def test_the_platform_is_named_where_there_is_no_device() -> None:
    environment: dict[str, str] = {}
    neuronx.name_platform("trn1n", environment, has_device=False)
    assert environment == {neuronx.PLATFORM: "trn1"}
    neuronx.name_platform("trn1", environment, has_device=False)
    neuronx.name_platform("inf2", environment, has_device=True)
    with pytest.raises(CompileError, match=r"OVERRIDE is trn1, and neuronx\.target is trn2"):
        neuronx.name_platform("trn2", environment, has_device=False)
    on_instance: dict[str, str] = {}
    neuronx.name_platform("inf2", on_instance, has_device=True)
    assert on_instance == {}


@pytest.mark.parametrize(
    ("target", "instance"), [("inf2", "trn2.3xlarge"), ("trn2", "inf2.xlarge"), ("trn1", "trn3.48")]
)
def test_graphs_for_other_cores_are_refused(target: str, instance: str) -> None:
    with pytest.raises(ArtifactError, match=f"compiled for {target}, and this is a {instance}"):
        check_target({"target": target}, instance)


@pytest.mark.parametrize(
    ("target", "instance"), [("inf2", "trn1.2xlarge"), ("trn2", "trn2u.48xlarge"), ("inf2", ""), ("", "inf2.xlarge")]
)
def test_graphs_run_on_the_same_cores(target: str, instance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(discovery.LOGICAL_CORES, raising=False)
    check_target({"target": target, "logical_nc_config": 2}, instance)


@pytest.mark.parametrize(("compiled", "set_to", "fits"), [(2, None, True), (1, "1", True), (1, None, False)])
def test_graphs_and_the_instance_agree_about_logical_cores(
    compiled: int, set_to: str | None, fits: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(discovery, "LOGICAL_CORES_FILE", tmp_path / "none")
    monkeypatch.delenv(discovery.LOGICAL_CORES, raising=False)
    if set_to:
        monkeypatch.setenv(discovery.LOGICAL_CORES, set_to)
    with nullcontext() if fits else pytest.raises(ArtifactError, match="set NEURON_LOGICAL_NC_CONFIG=1"):
        check_target({"target": "trn2", "logical_nc_config": compiled}, "trn2.3xlarge")


def test_trainium_3_is_refused_by_name(machine: Machine) -> None:
    with pytest.raises(ValidationError, match="neuronx-cc compiles for inf2, trn1, trn1n and trn2 only"):
        neuronx.NeuronxOptions.model_validate({"target": "trn3"})
    for instance in ("trn3.48xlarge", "trn3pds.98xlarge"):
        with pytest.raises(ArtifactError, match="use one of these instances"):
            check_target({"target": "trn2"}, instance)
        assert machine(neuronx.ENGINE, instance)["instance"].fix == NO_TRN3


def test_device_memory_is_compared_with_what_a_core_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(neuron_host, "SYSFS", tmp_path)
    inferentia, trainium = neuronx.ENGINE.memories
    assert check_device_memory(inferentia) == []
    for core, used, peak in ((0, 3_000_000_000, 4_000_000_000), (1, 1_000_000_000, 15_000_000_000)):
        folder = tmp_path / "neuron0" / f"neuron_core{core}" / "stats" / "memory_usage" / "device_mem"
        folder.mkdir(parents=True)
        (folder / "total").write_text(f"{used}\n")
        (folder / "peak").write_text(f"{peak}\n")
    (finding,) = check_device_memory(inferentia)
    assert (finding.state, finding.found) == ("ok", "up to 3.0 of 16 GB of a core in use, 15.0 GB at peak")
    assert check_device_memory(inferentia._replace(bytes_a_core=3.1e9))[0].state == "note"
    (tmp_path / "product").write_text("trn2.3xlarge\n")
    monkeypatch.setattr(discovery, "PRODUCT", tmp_path / "product")
    assert "of 24 GB" in check_device_memory(trainium)[0].found
    monkeypatch.setenv(discovery.LOGICAL_CORES, "1")
    assert "of 12 GB" in check_device_memory(trainium)[0].found
    assert neuronx.ENGINE.memory_on("trn2u") == trainium
    assert neuronx.ENGINE.memory_on("trn1n") == neuronx.ENGINE.memory_on("") == inferentia


def test_the_version_of_the_runtime_is_that_of_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert neuron_host.runtime_version() == ""
    program = tmp_path / "dpkg-query"
    program.write_text(f'#!/bin/sh\n[ "$3" = {neuron_host.RUNTIME_PACKAGE} ] && echo 2.33.10.0-a1b2c3d\n')
    program.chmod(0o755)
    assert neuron_host.runtime_version() == "2.33.10.0"
