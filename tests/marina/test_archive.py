"""The archive, opened by the code that TorchServe and torch-model-archiver open archives with."""

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from model_archiver.manifest_components.manifest import RuntimeType
from model_archiver.model_packaging_utils import ModelExportUtils

from marina.archive.pack import Packed, model_config, pack, parts_of
from marina.archive.read import version_of
from marina.compiler import compile_model
from marina.project import Project
from marina.spec import Spec, read_spec
from tests.conftest import no_progress

AddTiny = Callable[..., Path]


@pytest.fixture
def spec(add_tiny: AddTiny) -> Spec:
    return read_spec(add_tiny("m"))


@pytest.fixture
def artifact(project: Project, spec: Spec) -> Path:
    return compile_model(spec, project, no_progress).folder


def test_equal_content_makes_equal_archives(tmp_path: Path, spec: Spec, artifact: Path) -> None:
    one = pack(spec, artifact, tmp_path / "one").path.read_bytes()
    assert pack(spec, artifact, tmp_path / "two").path.read_bytes() == one


def test_nothing_is_packed_twice(tmp_path: Path, spec: Spec, artifact: Path) -> None:
    path = tmp_path / "m.mar"
    assert pack(spec, artifact, tmp_path) == Packed(path, reused=False)
    assert pack(spec, artifact, tmp_path) == Packed(path, reused=True)
    for change in ({"long_text": "reject"}, {"version": "2.0"}):
        assert pack(spec.model_copy(update=change), artifact, tmp_path) == Packed(path, reused=False)
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("MAR-INF/MANIFEST.json"))["model"]["modelVersion"] == "2.0"
        assert yaml.safe_load(archive.read("model-config.yaml"))["handler"]["version"] == "2.0"
    path.write_bytes(path.read_bytes()[:-100])
    assert pack(spec, artifact, tmp_path) == Packed(path, reused=False)


def test_files_are_stored_whole_and_none_else(tmp_path: Path, spec: Spec, artifact: Path) -> None:
    with zipfile.ZipFile(pack(spec, artifact, tmp_path / "store").path) as archive:
        assert archive.testzip() is None
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        names = set(archive.namelist())
    assert {"MAR-INF/MANIFEST.json", "model-config.yaml", "text_classification.py"} <= names
    assert {"handlers/worker/hosts/torchserve.py", "artifact/artifact.json", "artifact/graphs/1x16.xml"} <= names
    assert not [name for name in names if name.startswith("marina") or "__pycache__" in name]
    assert list((tmp_path / "store").iterdir()) == [tmp_path / "store" / "m.mar"]


def test_an_interrupted_pack_leaves_the_old_archive(
    tmp_path: Path, spec: Spec, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    path = pack(spec, artifact, store).path
    before = path.read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("marina.archive.pack.shutil.copyfileobj", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pack(spec.model_copy(update={"long_text": "reject"}), artifact, store)
    assert path.read_bytes() == before
    assert list(store.iterdir()) == [path]


def test_the_manifest_is_what_torch_model_archiver_writes(tmp_path: Path, spec: Spec, artifact: Path) -> None:
    with zipfile.ZipFile(pack(spec, artifact, tmp_path).path) as archive:
        manifest = json.loads(archive.read("MAR-INF/MANIFEST.json"))
    arguments = argparse.Namespace(
        model_name="m",
        serialized_file=None,
        model_file=None,
        handler="text_classification.py",
        extra_files=None,
        runtime=RuntimeType.PYTHON.value,
        version=manifest["model"]["modelVersion"],
        requirements_file=None,
        config_file="model-config.yaml",
    )
    expected = json.loads(ModelExportUtils.generate_manifest_json(arguments))
    expected["createdOn"] = manifest["createdOn"]
    assert manifest == expected


def test_torchserve_is_told_both_timeouts_and_equal_worker_counts(spec: Spec, artifact: Path) -> None:
    config = model_config(parts_of(spec.model_copy(update={"core_groups": "1,1,1"}), artifact), "7")
    assert config["minWorkers"] == config["maxWorkers"] == 3
    assert config["responseTimeout"] == 30
    assert config["startupTimeout"] == 120
    assert config["maxBatchDelay"] == 1


LOAD = """
import sys
folder = sys.argv[1]
sys.path[:0] = [folder]
from ts.model_loader import ModelLoaderFactory
from ts.context import RequestProcessor
service = ModelLoaderFactory.get_model_loader().load("m", folder, "text_classification.py", batch_size=4)
import handlers
assert handlers.__file__.startswith(folder), handlers.__file__
service.context.request_processor = [RequestProcessor({})]
print(service._entry_point([{"body": b"change company address"}], service.context)[0].decode())
assert not [name for name in sys.modules if name.split(".")[0] in ("marina", "transformers")]
"""


@pytest.mark.parametrize("engine", ["openvino", "torchscript"])
def test_torchserves_loader_serves_it_without_this_repository(
    tmp_path: Path, project: Project, add_tiny: AddTiny, engine: str
) -> None:
    spec = read_spec(add_tiny("m", engine=engine))
    archive = pack(spec, compile_model(spec, project, no_progress).folder, tmp_path).path
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    assert (
        yaml.safe_load((folder / "model-config.yaml").read_text())["handler"]["members"]["m"]["long_text"] == "truncate"
    )
    command = [sys.executable, "-c", LOAD, str(folder)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert {entry["label"] for entry in json.loads(result.stdout)} == {"bad", "fair", "good"}


def test_versions_come_from_the_content_unless_the_spec_names_one(spec: Spec, artifact: Path, tmp_path: Path) -> None:
    first, changed, named = (
        version_of(pack(one, artifact, tmp_path / str(number)).path)
        for number, one in enumerate(
            (spec, spec.model_copy(update={"long_text": "reject"}), spec.model_copy(update={"version": "2.0"}))
        )
    )
    assert re.fullmatch("[0-9a-f]{12}", first)
    assert re.fullmatch("[0-9a-f]{12}", changed)
    assert first != changed
    assert named == "2.0"
