"""Compiling as a whole: the cache, resuming, two at once, and what is left behind by a failure."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handlers.worker.answering.model import Model
from handlers.worker.archive.artifact import check_files, read_artifact
from handlers.worker.archive.signature import Head
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.tasks import TASKS
from handlers.worker.values import Shape
from marina.compiler import compile_model
from marina.compiler.cache import artifact_key
from marina.compiler.graphs.times import read_measured, read_times
from marina.compiler.job import prepare_job
from marina.errors import CompileError, SpecError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINES, WORDS, needs_openvino, no_progress
from tests.settings import make_settings

AddTiny = Callable[..., Path]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_artifact_says_how_it_came_to_be(project: Project, add_tiny: AddTiny, engine: str) -> None:
    spec = read_spec(add_tiny("m", engine=engine))
    folder = compile_model(spec, project, no_progress).folder
    artifact = read_artifact(folder)
    check_files(artifact)
    assert artifact.shapes == (Shape(1, 16), Shape(4, 64))
    assert artifact.signature.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert artifact.signature.heads == {"logits": Head(("bad", "fair", "good"), "softmax")}
    assert all(graph.parity and 0 < graph.parity < 1e-5 for graph in artifact.graphs)
    assert len({graph.weights for graph in artifact.graphs}) == 1
    assert set(artifact.versions) >= {"torch", "transformers", "tokenizers"}
    assert set(artifact.files) == set(contents(folder)) - {"artifact.json"}
    assert set(read_times(folder)) == set(artifact.shapes)
    assert [path.name for path in folder.parent.glob("*.partial")] == []


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_compiling_again_gives_the_same_bytes(project: Project, add_tiny: AddTiny, engine: str) -> None:
    spec = read_spec(add_tiny("m", engine=engine))
    folder = compile_model(spec, project, no_progress).folder
    first = contents(folder)
    shutil.rmtree(folder)
    # in the other order, so that what a process counts up differs
    other = read_spec(project.models / "m.yaml", {"shapes": {"exact": ["4x64"]}})
    compile_model(other, project, no_progress)
    assert compile_model(spec, project, no_progress) == (folder, False)
    assert contents(folder) == first


def write_examples(project: Project, count: int) -> None:
    source = random.Random(0)
    lines = [" ".join(source.choices(WORDS, k=source.randint(2, 10))) for _ in range(count)]
    (project.root / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")


@pytest.mark.long
@needs_openvino
def test_int8_is_calibrated_and_judged_on_different_texts(project: Project, add_tiny: AddTiny) -> None:
    write_examples(project, 101)
    spec = read_spec(add_tiny("m", precision="int8", examples="texts.csv", parity={"agreement": 0.5}))
    folder = compile_model(spec, project, no_progress).folder
    artifact = read_artifact(folder)
    assert artifact.precision == "int8"
    assert "nncf" in artifact.versions
    (tried,) = json.loads((folder / "artifact.json").read_text())["tried"]
    assert tried["measure"] == "same label"
    assert 0 < tried["texts"] <= 50
    assert 0.5 <= tried["value"] <= 1
    worst = max(graph.parity or 0.0 for graph in artifact.graphs)
    assert 1e-4 < worst < artifact.tolerance <= 3 * worst
    # the golden rows hold, on which a worker proves itself
    Model(
        folder,
        make_settings(),
        TASKS,
    )

    first = contents(folder)
    shutil.rmtree(folder)
    assert compile_model(spec, project, no_progress).folder == folder
    assert contents(folder) == first


@needs_openvino
def test_a_precision_that_changes_answers_leaves_nothing(project: Project, add_tiny: AddTiny) -> None:
    write_examples(project, 20)
    path = add_tiny("m", task="sentence-embedding", precision="int8", examples="texts.csv", parity={"cosine": 1})
    with pytest.raises(CompileError, match=r"int8 changes answers: mean cosine 0\.\d+ on 10 held-out texts"):
        compile_model(read_spec(path), project, no_progress)
    assert not list((project.artifacts / "m").glob("*/"))


@needs_openvino
def test_int8_needs_texts_to_be_judged_on(project: Project, add_tiny: AddTiny) -> None:
    (project.root / "texts.csv").write_text("text\nok\n")
    path = add_tiny("m", precision="int8", examples="texts.csv")
    with pytest.raises(CompileError, match="examples holds no text of at most 64 tokens to judge on"):
        compile_model(read_spec(path), project, no_progress)


@needs_openvino
def test_auto_keeps_one_that_passes_and_says_what_it_tried(
    project: Project, add_tiny: AddTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marina.engines.openvino._has_bf16", lambda: True)
    write_examples(project, 20)
    path = add_tiny("m", precision="auto", examples="texts.csv", parity={"agreement": 1})
    folder = compile_model(read_spec(path), project, no_progress).folder
    tried = {entry["precision"]: entry for entry in json.loads((folder / "artifact.json").read_text())["tried"]}
    assert list(tried) == ["int8", "bf16", "f32"]
    assert tried[read_artifact(folder).precision]["passed"]
    assert json.loads((folder / "artifact.json").read_text())["decided"] in ("answers", "speed", "size")
    assert tried["int8"]["of"] == "texts.csv"
    assert set(read_measured(folder)["precisions"]) == set(tried)
    assert read_measured(folder)["noise"] >= 0
    assert contents(folder).keys() == {"artifact.json", *read_artifact(folder).files}


@pytest.mark.long
def test_unchanged_work_is_not_redone(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m")
    first = compile_model(read_spec(path), project, no_progress)
    assert compile_model(read_spec(path), project, no_progress) == (first.folder, True)
    serving = {"serving": {"batch_size": 4}, "long_text": "reject", "core_groups": "1,1", "version": "2.0"}
    assert compile_model(read_spec(path, serving), project, no_progress).reused
    assert not compile_model(read_spec(path, {"parity": {"tolerance": 1e-3}}), project, no_progress).reused
    config = project.root / "weights" / "m" / "config.json"
    config.write_text(config.read_text().replace('"good"', '"best"'))
    assert not compile_model(read_spec(path), project, no_progress).reused


def test_the_key_holds_what_decides_a_precision(project: Project, add_tiny: AddTiny) -> None:
    write_examples(project, 20)
    path = add_tiny("m", examples="texts.csv")

    def key(**fields: object) -> str:
        return artifact_key(prepare_job(read_spec(path, fields), project.root))

    parameters, groups = {"parameters": {"top_k": 1}}, {"core_groups": "1,1"}
    assert key() == key(**parameters) == key(**groups)
    if "openvino" in ENGINES:
        judged = {"precision": "int8"}
        assert key(**judged) == key(**judged, **groups)
        assert key(**judged) != key(**judged, **parameters)
        timed = {"precision": "auto"}
        other = {"core_groups": "1,1" if len(cpu_cores()) > 1 else "2"}
        assert len({key(**timed), key(**timed, **parameters), key(**timed, **other)}) == 3


def test_a_failure_that_nobody_expected_is_one_line_with_a_traceback_on_file(
    project: Project, add_tiny: AddTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero\nand more")

    monkeypatch.setattr("marina.compiler.build_artifact", fail)
    message = r"^m: compiling failed with ZeroDivisionError: division by zero.* That is a fault of"
    with pytest.raises(CompileError, match=message) as told:
        compile_model(read_spec(add_tiny("m")), project, no_progress)
    assert "\n" not in str(told.value)
    assert "ZeroDivisionError" in (project.artifacts / "m" / "error.log").read_text()


def test_a_full_disk_is_said_so(project: Project, add_tiny: AddTiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.partial")

    monkeypatch.setattr("marina.compiler.build_artifact", fail)
    message = r"^m: compiling failed: No space left on device \(x\.partial\); no artifact"
    with pytest.raises(CompileError, match=message):
        compile_model(read_spec(add_tiny("m")), project, no_progress)


def test_a_damaged_artifact_is_made_anew(project: Project, add_tiny: AddTiny) -> None:
    spec = read_spec(add_tiny("m"))
    folder = compile_model(spec, project, no_progress).folder
    (folder / read_artifact(folder).graphs[0].graph).unlink()
    assert compile_model(spec, project, no_progress) == (folder, False)
    check_files(read_artifact(folder))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_that_is_not_faithful_leaves_nothing(project: Project, add_tiny: AddTiny, engine: str) -> None:
    spec = read_spec(add_tiny("m", engine=engine, parity={"tolerance": 1e-12}))
    message = r"m: graph 1x16: outputs differ from the reference model's by .*; the tolerance is 1e-12; no artifact"
    with pytest.raises(CompileError, match=message):
        compile_model(spec, project, no_progress)
    assert [path for path in (project.artifacts / "m").iterdir() if path.is_dir()] == []


def test_shapes_that_the_model_cannot_read_are_refused(project: Project, add_tiny: AddTiny) -> None:
    with pytest.raises(CompileError, match=r"a shape of 65 tokens is more than the model can read \(64\)"):
        compile_model(read_spec(add_tiny("m", shapes={"exact": ["1x65"]})), project, no_progress)
    with pytest.raises(CompileError, match="no text fits the shape of 1 tokens; compile longer ones"):
        compile_model(read_spec(add_tiny("n", shapes={"exact": ["1x1"]})), project, no_progress)


def test_own_examples_are_read_from_a_file(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m", examples="texts.csv")
    with pytest.raises(SpecError, match=r"models/m\.yaml: examples: texts\.csv cannot be read"):
        compile_model(read_spec(path), project, no_progress)
    (project.root / "texts.csv").write_text("words\nhello\n")
    with pytest.raises(SpecError, match="has no field 'text'"):
        compile_model(read_spec(path), project, no_progress)
    (project.root / "texts.csv").write_text('text,text_pair\n"hello, you",\nhow,are you\n')
    compile_model(read_spec(path), project, no_progress)


COMPILE = """
import sys, time
from pathlib import Path
from marina.compiler import compile_model
from marina.project import Project
from marina.spec import read_spec
root = Path(sys.argv[1])
def progress(what, done, steps):
    print(what, flush=True)
    if what == sys.argv[2]:
        time.sleep(60)
print(compile_model(read_spec(root / "models" / "m.yaml"), Project(root), progress).reused)
"""


REUSE = """
import sys
from marina.cli import main
sys.argv = ["marina", "compile", "--json"]
try:
    main()
finally:
    print([name for name in ("torch", "transformers", "openvino") if name in sys.modules], file=sys.stderr)
"""


def start_compile(project: Project, sleep_at: str = "") -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", COMPILE, str(project.root), sleep_at]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_work_that_was_cut_off_goes_on_where_it_stopped(
    project: Project, add_tiny: AddTiny, ending: signal.Signals
) -> None:
    spec = read_spec(add_tiny("m"))
    with start_compile(project, sleep_at="graph 4x64") as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "graph 4x64":
            pass
        process.send_signal(ending)
        process.wait(timeout=30)
    (partial,) = (project.artifacts / "m").glob("*.partial")
    (first,) = (path for path in (partial / "graphs").glob("1x16.*") if path.suffix != ".bin")
    written = first.stat().st_mtime_ns
    compiled = compile_model(spec, project, no_progress)
    assert not compiled.reused
    assert (compiled.folder / "graphs" / first.name).stat().st_mtime_ns == written
    check_files(read_artifact(compiled.folder))
    assert not partial.exists()


def test_files_that_a_killed_process_left_half_written_are_not_part_of_the_artifact(
    project: Project, add_tiny: AddTiny
) -> None:
    spec = read_spec(add_tiny("m"))
    left = project.artifacts / "m" / f"{artifact_key(prepare_job(spec, project.root))}.partial"
    for name in (".weights.safetensors.0123abcd.partial", ".artifact.json.partial", "graphs/.1x16.pt.partial"):
        (left / name).parent.mkdir(parents=True, exist_ok=True)
        (left / name).write_text("half")
    folder = compile_model(spec, project, no_progress).folder
    check_files(read_artifact(folder))
    assert [name for name in contents(folder) if name.endswith(".partial")] == []
    assert compile_model(spec, project, no_progress) == (folder, True)


@pytest.mark.long
def test_two_at_once_make_one_artifact(project: Project, add_tiny: AddTiny) -> None:
    add_tiny("m")
    outputs = []
    processes = [start_compile(project) for _ in range(2)]
    for process in processes:
        outputs.append(process.communicate(timeout=120)[0].split())
        assert process.returncode == 0
    assert sorted(output[-1] for output in outputs) == ["False", "True"]
    assert len([path for path in (project.artifacts / "m").iterdir() if path.is_dir()]) == 1


def test_a_second_run_takes_no_time_to_speak_of(project: Project, add_tiny: AddTiny) -> None:
    """It must not even import torch: that alone takes seconds."""
    add_tiny("m")
    compile_model(read_spec(project.models / "m.yaml"), project, no_progress)
    result = subprocess.run(
        [sys.executable, "-c", REUSE], cwd=project.root, capture_output=True, text=True, check=True, env=os.environ
    )
    assert json.loads(result.stdout)[0]["reused"] is True
    assert result.stderr.strip().splitlines()[-1] == "[]"
