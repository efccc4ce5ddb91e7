from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import marina
from marina.bench.report.machine import machine
from marina.bench.report.results import Configuration
from marina.bench.sweep import journal as journal_module
from marina.bench.sweep import run as run_module
from marina.bench.sweep import strategies as module
from marina.bench.sweep.journal import Journal
from marina.bench.sweep.run import measure_settings, run_sweep
from marina.bench.sweep.spec import Sweep, settings_of
from marina.compiler import sources
from marina.compiler.sources.folder import ModelFolder
from marina.errors import CompileError, SourceError, SpecError
from marina.fields import read_fields
from marina.project import Project
from tests.conftest import ROOT
from tests.marina.bench.results import measured

SPEC = {
    "name": "m",
    "task": "text-classification",
    "source": {"path": "weights"},
    "serving": {"batch_size": 4, "queue_size": 77},
}


@pytest.fixture
def own(tmp_path: Path) -> Project:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.yaml").write_text(yaml.safe_dump(SPEC))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text("{}")
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"as trained")
    return Project(tmp_path)


def sweep_of(**vary: Any) -> Sweep:
    return Sweep.model_validate({"model": "m", "vary": vary, "rounds": 3})


def test_every_combination_is_there_once_and_the_rest_is_as_in_the_spec(own: Project) -> None:
    sweep = sweep_of(
        engine=["openvino", "torchscript"],
        shapes=["1x16", "1x16,8x32"],
        core_groups=["1,1", "2"],
        batch_size=[8],
        batch_delay_ms=[1, 5],
        connections=[1, 64],
        rate=[100.0],
        instances=[1, 32],
    )
    settings = settings_of(sweep, own)
    assert len(settings) == 16
    assert len({setting.spec.model_dump_json() for setting in settings}) == 16
    assert all(len(setting.workloads) == 6 for setting in settings)
    assert {setting.spec.serving.queue_size for setting in settings} == {77}
    assert {setting.spec.serving.batch_size for setting in settings} == {8}
    assert {str(shape) for setting in settings for shape in setting.spec.shapes.listed()} == {"1x16", "8x32"}


def test_the_example_of_the_docs_is_a_sweep(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    path = tmp_path / "bench.yaml"
    path.write_text(page.split("```yaml\n")[1].split("```")[0])
    settings = settings_of(read_fields(path, Sweep), Project(ROOT))
    assert len(settings) == 16
    assert {len(setting.workloads) for setting in settings} == {3}


def test_without_anything_to_vary_the_spec_is_measured(own: Project) -> None:
    (setting,) = settings_of(sweep_of(), own)
    assert setting.spec.serving.batch_size == 4
    assert [load.connections for load, _ in setting.workloads] == [16]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model: m\nvary: {colour: [red]}\n", "vary.colour"),
        ("vary: {}\n", "model"),
        ("model: [", "cannot be read"),
        ("model: m\nvary: {}\nrounds: 0\n", "rounds"),
        ("", "file"),
    ],
)
def test_a_wrong_file_is_refused_with_its_field(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bench.yaml"
    path.write_text(content)
    with pytest.raises(SpecError, match=message):
        read_fields(path, Sweep)


def test_a_combination_that_is_no_spec_is_refused(own: Project) -> None:
    with pytest.raises(SpecError, match="precision"):
        settings_of(sweep_of(precision=["fp4"]), own)


class FakeServer:
    """Serves nothing; remembers what it was asked to serve."""

    def __init__(self, cut_off_after: int = 1000) -> None:
        self.served: list[str] = []
        self._left = cut_off_after

    def archive(self, spec: Any) -> None:
        if spec.core_groups == "2":
            raise CompileError("it does not compile")
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        self.served.append(spec.engine)

    def serve(self, name: str, protocol: str) -> Any:
        return SimpleNamespace(configuration=Configuration(model=name))


def test_a_sweep_that_was_cut_off_goes_on_where_it_stopped(
    own: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sweep = sweep_of(engine=["openvino", "torchscript"], core_groups=["1,1", "2"], connections=[1, 2])
    settings = settings_of(sweep, own)
    count = 0

    def measure_endpoint(*_: Any) -> Any:
        nonlocal count
        count += 1
        return measured(100 + count)

    monkeypatch.setattr(module, "measure_endpoint", measure_endpoint)
    monkeypatch.setattr(module, "check", lambda *_: None)
    path = tmp_path / "rounds.jsonl"
    shown: list[str] = []

    def progress(what: str, done: int, steps: int) -> None:
        shown.append(what)
        assert done <= steps == 3 * 4 * 2

    with pytest.raises(KeyboardInterrupt):
        measure_settings(sweep, settings, FakeServer(4), Journal(path, own.root), progress)  # type: ignore[arg-type]
    assert count == 8
    with path.open("a") as file:
        file.write('{"key": "cut o')  # as a crash in the middle of writing leaves it
    server = FakeServer()
    entries, failures = measure_settings(sweep, settings, server, Journal(path, own.root), progress)  # type: ignore[arg-type]
    # two engines with one of two core groups, two loads, three rounds
    assert count == 2 * 2 * 3
    assert len(server.served) == 2
    assert [len(entry.rounds) for entry in entries] == [3, 3, 3, 3]
    assert failures == [failure for failure in failures if "it does not compile" in failure]
    assert len(failures) == 2
    assert any("left" in what for what in shown)

    again, _ = measure_settings(sweep, settings, FakeServer(0), Journal(path, own.root), progress)  # type: ignore[arg-type]
    assert again == entries


def test_what_was_measured_otherwise_is_not_taken(own: Project, tmp_path: Path) -> None:
    (setting,) = settings_of(sweep_of(connections=[1]), own)
    (longer,) = settings_of(Sweep.model_validate({"model": "m", "vary": {"connections": [1]}, "window_s": 9}), own)
    journal = Journal(tmp_path / "rounds.jsonl", own.root)
    journal.store(setting.spec, setting.workloads[0], 0, Configuration(model="m"), measured(1))
    assert journal.find(setting.spec, setting.workloads[0], 0) is not None
    assert journal.find(setting.spec, setting.workloads[0], 1) is None
    assert journal.find(longer.spec, longer.workloads[0], 0) is None
    assert found_again(own)
    over_grpc = Journal(own.root / "rounds.jsonl", own.root, "grpc")
    assert over_grpc.find(setting.spec, setting.workloads[0], 0) is None


def found_again(own: Project) -> bool:
    """Whether a journal that is opened anew has the first round of the first load."""
    (setting,) = settings_of(sweep_of(connections=[1]), own)
    return Journal(own.root / "rounds.jsonl", own.root).find(setting.spec, setting.workloads[0], 0) is not None


def keep_one(own: Project) -> None:
    (setting,) = settings_of(sweep_of(connections=[1]), own)
    journal = Journal(own.root / "rounds.jsonl", own.root)
    journal.store(setting.spec, setting.workloads[0], 0, Configuration(model="m"), measured(1))


def test_weights_that_were_trained_again_are_measured_anew(own: Project) -> None:
    keep_one(own)
    assert found_again(own)
    weights = own.root / "weights" / "model.safetensors"
    weights.write_bytes(b"trained again")
    assert not found_again(own)
    weights.write_bytes(b"as trained")
    assert found_again(own)


def test_other_texts_to_choose_the_precision_on_are_measured_anew(own: Project) -> None:
    (own.root / "models" / "m.yaml").write_text(yaml.safe_dump({**SPEC, "examples": "texts.csv"}))
    (own.root / "texts.csv").write_text("text\nok\n")
    keep_one(own)
    assert found_again(own)
    (own.root / "texts.csv").write_text("text\nok\nthanks\n")
    assert not found_again(own)


def test_changed_code_is_measured_anew_committed_or_not(
    own: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code" / "marina" / "__init__.py"
    code.parent.mkdir(parents=True)
    code.write_text("")
    monkeypatch.setattr(marina, "__file__", str(code))
    keep_one(own)
    assert found_again(own)
    code.write_text("BATCH = 2\n")
    assert not found_again(own)
    keep_one(own)
    assert found_again(own)
    (code.parent / "more.py").write_text("")
    assert not found_again(own)


def test_a_commit_that_leaves_the_code_alone_changes_nothing(own: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_one(own)
    facts = machine()
    monkeypatch.setattr(journal_module, "machine", lambda: {**facts, "revision": "another"})
    assert found_again(own)
    monkeypatch.setattr(journal_module, "machine", lambda: {**facts, "cores": 99})
    assert not found_again(own)


def test_weights_are_read_once(own: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    class Counted(ModelFolder):
        def fingerprint(self) -> str:
            read.append(self.folder)
            return super().fingerprint()

    monkeypatch.setattr(sources, "ModelFolder", Counted)
    journal = Journal(own.root / "rounds.jsonl", own.root)
    for setting in settings_of(sweep_of(engine=["openvino", "torchscript"], connections=[1, 2]), own):
        for pair in setting.workloads:
            assert journal.find(setting.spec, pair, 0) is None
            journal.store(setting.spec, pair, 0, Configuration(model="m"), measured(1))
    assert read == [own.root / "weights"]


def test_missing_weights_are_refused(own: Project) -> None:
    (own.root / "weights" / "config.json").unlink()
    with pytest.raises(SourceError, match=r"config\.json is missing"):
        found_again(own)


@pytest.mark.parametrize(
    "vary",
    [{"rate": [-5]}, {"rate": [0]}, {"rate": [".inf"]}, {"connections": [0]}, {"instances": [0]}, {"instances": []}],
)
def test_a_load_that_no_command_would_take_is_refused(tmp_path: Path, vary: dict[str, Any]) -> None:
    path = tmp_path / "bench.yaml"
    path.write_text(yaml.safe_dump({"model": "m", "vary": vary}).replace("'", ""))
    with pytest.raises(SpecError, match=rf"bench.yaml: vary.{next(iter(vary))}"):
        read_fields(path, Sweep)


@pytest.mark.parametrize(
    ("instance", "price", "paid"),
    [
        (None, None, ("inf1.xlarge", 0.1)),
        ("inf2.xlarge", None, ("inf2.xlarge", 0.76)),
        (None, 0.5, ("inf1.xlarge", 0.5)),
        ("inf2.xlarge", 0.5, ("inf2.xlarge", 0.5)),
    ],
)
def test_an_instance_of_the_command_has_its_own_price(
    own: Project, monkeypatch: pytest.MonkeyPatch, instance: str | None, price: float | None, paid: tuple[str, float]
) -> None:
    path = own.root / "bench.yaml"
    path.write_text(yaml.safe_dump({"model": "m", "vary": {}, "instance": "inf1.xlarge", "price": 0.1}))
    monkeypatch.setattr(run_module, "benchmark_server", lambda *_: nullcontext())
    monkeypatch.setattr(run_module, "measure_settings", lambda *_: ([None], []))
    found = run_sweep(own, path, own.root, instance, price, lambda *_: None).price
    assert found is not None
    assert (found.instance, round(found.per_hour, 2)) == paid
