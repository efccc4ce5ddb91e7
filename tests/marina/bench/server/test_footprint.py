"""What a worker of an archive needs: measured, written beside the archive, and for its contents alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.placement import group_cores
from handlers.worker.placement.leases import FOLDER_VARIABLE
from marina.archive.describe import describe_archive
from marina.archive.footprint import Footprint, footprint_file, read_footprint, write_footprint
from marina.archive.pack import pack
from marina.archive.read import fingerprint_of
from marina.bench.server import footprint as measuring
from marina.bench.server.footprint import NotReady, footprint_of, memory_of
from marina.bench.server.largest_requests import LargestRequests
from marina.compiler import compile_model
from marina.errors import ServerError
from marina.project import Project
from marina.server.hosts.direct.worker import Worker
from marina.spec import Spec, read_spec
from tests.conftest import no_progress

FOOTPRINT = Footprint(90_000_000, 100_000_000, 70_000_000, 0.9, 2, "any")


@pytest.fixture
def spec(add_tiny: Callable[..., Path]) -> Spec:
    return read_spec(add_tiny("m", core_groups="1"))


@pytest.fixture
def archive(project: Project, spec: Spec) -> Path:
    return pack(spec, compile_model(spec, project, no_progress).folder, project.model_store).path


def measured(archive: Path, spec: Spec) -> tuple[Footprint, bool]:
    """The footprint of an archive, and whether it was measured now."""
    calls: list[None] = []
    footprint = footprint_of(
        archive, [spec], archive.parent.parent / "build" / "footprints", lambda: calls.append(None)
    )
    return footprint, bool(calls)


def test_a_footprint_is_for_the_contents_that_were_measured(project: Project, spec: Spec, archive: Path) -> None:
    assert read_footprint(archive) is None
    before = archive.read_bytes()
    write_footprint(archive, fingerprint_of(archive), FOOTPRINT)
    assert archive.read_bytes() == before
    assert read_footprint(archive) == describe_archive(archive).footprint == FOOTPRINT
    artifact = compile_model(spec, project, no_progress).folder
    pack(spec.model_copy(update={"long_text": "reject"}), artifact, project.model_store)
    assert read_footprint(archive) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"archive": null}'])
def test_a_footprint_that_cannot_be_read_is_none(archive: Path, content: str) -> None:
    footprint_file(archive).write_text(content)
    assert read_footprint(archive) is None


def test_a_footprint_of_other_fields_is_none(archive: Path) -> None:
    write_footprint(archive, fingerprint_of(archive), FOOTPRINT)
    document = json.loads(footprint_file(archive).read_text())
    footprint_file(archive).write_text(json.dumps({**document, "peak_bytes": "many"}))
    assert read_footprint(archive) is None


def test_a_worker_is_measured_once_for_each_machine(
    archive: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # a server that runs may hold all cores: the worker that is measured takes none of them
    (tmp_path / "no-folder").write_text("")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "no-folder"))
    footprint, now = measured(archive, spec)
    assert now
    assert 20e6 < footprint.resting_bytes <= footprint.peak_bytes < 400e6
    assert 20e6 < footprint.shared_bytes < 400e6
    assert 0 < footprint.ready_s < 60
    assert footprint.cores == group_cores("1")
    assert measured(archive, spec) == (footprint, False)
    assert list((archive.parent.parent / "build" / "footprints").iterdir()) == [
        archive.parent.parent / "build" / "footprints" / "m.lock"
    ]
    for elsewhere in (replace(footprint, processor="another"), replace(footprint, cores=64)):
        write_footprint(archive, fingerprint_of(archive), elsewhere)
        again, now = measured(archive, spec)
        assert now
        assert again.processor == footprint.processor


def test_why_a_worker_cannot_be_measured_is_said(archive: Path, spec: Spec, tmp_path: Path) -> None:
    damaged = tmp_path / "store" / "m.mar"
    damaged.parent.mkdir()
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(damaged, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"{}" if name.endswith("tokenizer.json") else source.read(name))
    with pytest.raises(NotReady, match=r"^m: .*tokenizer\.json"):
        measured(damaged, spec)
    assert not footprint_file(damaged).exists()


def test_a_worker_that_ends_under_load_is_an_error(archive: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    original, killed = measuring._send, []

    async def send(worker: Worker, *arguments: Any) -> None:
        killed.append(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)
        await original(worker, *arguments)

    monkeypatch.setattr(measuring, "_send", send)
    with pytest.raises(
        ServerError, match=r"its worker ended under the largest batches .*: the (worker|process \d+ has) ended"
    ):
        measured(archive, spec)
    with pytest.raises(ProcessLookupError):
        os.kill(killed[0], 0)
    assert not footprint_file(archive).exists()


def test_a_worker_that_fails_on_a_request_is_not_measured_with_smaller_requests(
    archive: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = []

    async def status(*_: object) -> int:
        statuses.append(500)
        return 500

    monkeypatch.setattr(measuring, "_status", status)
    with pytest.raises(NotReady, match="is answered 500"):
        measured(archive, spec)
    assert len(statuses) == 1


def test_requests_that_are_refused_measure_nothing(archive: Path, spec: Spec) -> None:
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
        contents = {name: file.read(name) for name in names}
    config = contents["model-config.yaml"].decode().replace("max_characters: 100000", "max_characters: 2")
    with zipfile.ZipFile(archive, "w") as file:
        for name in names:
            file.writestr(name, config if name == "model-config.yaml" else contents[name])
    with pytest.raises(NotReady, match="is answered 4"):
        measured(archive, spec)


def test_the_largest_requests_are_within_the_limits(archive: Path, spec: Spec, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    limits = {"max_instances": 3, "max_characters": 500}
    small = spec.model_copy(update={"serving": spec.serving.model_copy(update=limits)})
    for limited in (spec, small):
        requests = LargestRequests(limited, tmp_path / "artifact", bundle=False)
        bodies = [
            body
            for number in range(4)
            for body in (requests.many(requests.max_texts, number), requests.long(requests.max_times, number))
        ]
        assert len(set(bodies)) == 8
        for body in bodies:
            texts = json.loads(body)["inputs"]
            assert len(body) <= limited.serving.max_body_bytes
            assert len(texts) <= limited.serving.max_instances
            assert max(map(len, texts)) <= limited.serving.max_characters
        assert len(json.loads(requests.long(requests.max_times, 0))["inputs"][0]) > limited.serving.max_characters / 2


def test_memory_of_a_process_that_has_ended() -> None:
    assert memory_of(os.getpid()).private > 10e6
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        memory_of(process.pid)
