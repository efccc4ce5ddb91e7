"""`marina compile` and `marina archive`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from handlers.worker.artifact import Artifact
from handlers.worker.errors import WorkerError
from handlers.worker.values import Shape
from marina.cli.options import EngineOption, JsonOption, Names, ShapesOption
from marina.console import print_error, print_json, print_table, progress_bar, relative, say
from marina.errors import MarinaError, SpecError
from marina.files import explain
from marina.project import Project, find_project
from marina.spec import Spec, read_spec


def compile_models(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Compile models into artifacts under build/artifacts.

    Every graph is checked against the Hugging Face model on real texts. What has been compiled
    before is not compiled again, and what was interrupted goes on where it stopped.
    """
    project = find_project()
    _for_each_spec(project, names, engine, shapes, lambda spec: _compile(spec, project, not as_json), as_json)


def archive(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Pack models as model_store/NAME.mar, compiling first what is not compiled yet.

    An archive holds the artifact, its handler and all that the worker needs besides installed
    packages. The same spec, weights and versions give the same archive, byte for byte.
    """
    from marina.archive import pack

    project = find_project()

    def compile_and_pack(spec: Spec) -> dict[str, Any]:
        document = _compile(spec, project, not as_json)
        packed = pack(spec, Path(document["artifact"]), project.model_store)
        if not as_json:
            size = packed.path.stat().st_size / 1e6
            say(f"{spec.name}: {'unchanged' if packed.reused else 'packed'} {relative(packed.path)} ({size:.1f} MB)")
        return {**document, "archive": str(packed.path), "archive_reused": packed.reused}

    _for_each_spec(project, names, engine, shapes, compile_and_pack, as_json)


def _for_each_spec(
    project: Project,
    names: list[str] | None,
    engine: str | None,
    shapes: str | None,
    work: Callable[[Spec], dict[str, Any]],
    as_json: bool,
) -> None:
    """Do the work for every model; one that fails does not keep the others from theirs."""
    overrides: dict[str, Any] = {}
    if engine:
        overrides["engine"] = engine
    if shapes:
        overrides["shapes"] = {"exact": shapes.split(",")}
    known = sorted(path.stem for path in project.models.glob("*.yaml"))
    documents, failed = [], False
    for name in names or known:
        try:
            if name not in known:
                raise SpecError(f"no model {name!r} in {project.models}; there are: {', '.join(known) or 'none'}")
            documents.append(work(read_spec(project.models / f"{name}.yaml", overrides)))
        except (MarinaError, WorkerError) as error:
            message = _named(str(error), name)
            print_error(message)
            documents.append({"name": name, "error": message})
            failed = True
        except OSError as error:  # a full disk, or a folder that may not be written
            message = f"{name}: {explain(error)}"
            print_error(message)
            documents.append({"name": name, "error": message})
            failed = True
    if as_json:
        print_json(documents)
    if failed:
        raise typer.Exit(1)


def _named(message: str, name: str) -> str:
    """A message that says which model it is about."""
    return message if message.startswith(f"{name}:") or f"{name}.yaml" in message else f"{name}: {message}"


def _compile(spec: Spec, project: Project, show: bool) -> dict[str, Any]:
    """Compile one model; returns what `--json` prints of it."""
    from handlers.worker.artifact import read_artifact
    from marina.compiler import compile_model
    from marina.compiler.graphs.times import read_measured, read_times
    from marina.compiler.record import read_record

    start = time.monotonic()
    with progress_bar(spec.name) as progress:
        folder, reused = compile_model(spec, project, progress)
    artifact = read_artifact(folder)
    times = read_times(folder)
    recorded = read_record(folder)
    tried, decided = recorded.tried, recorded.decided
    graphs = [
        {"shape": str(graph.shape), "parity": graph.parity, "milliseconds": times.get(graph.shape)}
        for graph in artifact.graphs
    ]
    if show:
        done = "reused" if reused else f"compiled in {time.monotonic() - start:.1f} s"
        say(f"{spec.name}: {done}, {len(graphs)} {artifact.engine} {artifact.precision} graphs in {relative(folder)}")
        if not reused:
            _print_tried(tried, read_measured(folder))
            _print_decided(artifact.precision, decided, read_measured(folder))
            judged = any(entry["precision"] == artifact.precision and "value" in entry for entry in tried)
            _print_graphs(artifact, times, judged)
        _print_notes(artifact)
    document = {"name": spec.name, "artifact": str(folder), "reused": reused, "precision": artifact.precision}
    return {**document, "decided": decided, "tried": tried, "graphs": graphs}


def _print_graphs(artifact: Artifact, times: Mapping[Shape, float], judged: bool) -> None:
    """What was measured of each graph, where they could be run.

    Where answers were judged, outputs differ by design, and the table of precisions says how many answers are kept.
    """
    rows = []
    for graph in artifact.graphs:
        milliseconds = times.get(graph.shape)
        measured = (
            [f"{milliseconds:.2f}", f"{graph.shape.batch_size / milliseconds * 1000:.0f}"] if milliseconds else [""] * 2
        )
        parity = [] if judged else ["" if graph.parity is None else f"{graph.parity:.0e}"]
        rows.append([str(graph.shape), *measured, *parity])
    columns = ["graph", "ms per call", "rows/s", *([] if judged else ["max difference"])]
    print_table(columns, rows, numbers=len(columns) - 1)
    if not judged:
        say(f"max difference: of any output, on real texts, to the original model; allowed: {artifact.tolerance:.0e}")


def _print_notes(artifact: Artifact) -> None:
    """What a person should know of graphs for Neuron."""
    compiler = artifact.compiler
    if not compiler:
        return
    say(f"compiler arguments: {' '.join(compiler['arguments'])}")
    if not compiler["checked"]:
        say(
            "not run yet: no free NeuronCore here. Every worker checks the graphs on its own cores before it serves; "
            f"outputs may differ from the reference by {artifact.tolerance:.0e}"
        )
    elif compiler["mitigations"]:
        say(f"outputs were not finite, and are with: {', '.join(compiler['mitigations'])}")


def _print_tried(tried: list[dict[str, Any]], measured: dict[str, Any]) -> None:
    """The precisions that were tried: time of the largest graph, and whether answers stay the same."""
    rows = [
        [
            entry["precision"],
            f"{measured['precisions'][entry['precision']]:.2f}",
            f"{entry['measure']} {entry['value']:.4f} of {entry['least']}" if "value" in entry else "",
            "yes" if entry["passed"] else "no",
        ]
        for entry in tried
    ]
    if not rows:
        return
    print_table(["precision", "ms per call", "answers on held-out texts", "passes"], rows)
    judged = next((entry for entry in tried if "value" in entry), None)
    if judged:
        say(f"judged on {judged['texts']} texts of {judged['of']}; texts of another kind may do worse")


def _print_decided(precision: str, decided: str, measured: dict[str, Any]) -> None:
    """Why a precision was kept, where there was a choice."""
    moved = f"{measured['noise']:.0%} that times moved"
    reasons = {
        "answers": "no other keeps the answers",
        "speed": f"faster than each smaller one by more than the {moved}",
        "size": f"the smallest; no larger one is faster{f' by more than the {moved}' if measured['noise'] else ''}",
    }
    if decided in reasons:
        say(f"kept {precision}: {reasons[decided]}")
