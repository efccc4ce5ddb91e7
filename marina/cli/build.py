"""`marina compile` and `marina archive`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from handlers.worker.archive.artifact import Artifact
from handlers.worker.values import Shape
from marina.cli.each import for_each_spec
from marina.cli.options import EngineOption, JsonOption, Names, ShapesOption
from marina.console import print_table, progress_bar, relative, say
from marina.errors import MarinaError
from marina.project import Project, find_project
from marina.spec import Spec
from marina.spec.bundle import Bundle


def compile_models(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Compile models into artifacts under build/artifacts.

    Every graph is compared with the Hugging Face model on real texts. Nothing is compiled twice, and
    interrupted work continues where it stopped.
    """
    project = find_project()

    def compile_all(model: Spec | Bundle, specs: list[Spec]) -> dict[str, Any]:
        documents = [_compile(spec, project, not as_json) for spec in specs]
        return {"name": model.name, "members": documents} if isinstance(model, Bundle) else documents[0]

    for_each_spec(project, names, engine, shapes, compile_all, as_json)


def archive(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Pack models as model_store/NAME.mar; models that are not compiled yet are compiled first.

    An archive contains the artifact, its handler and everything else the worker needs, except
    installed packages. The archive of a bundle contains those of all its models. The same spec, weights
    and versions give the same archive, byte for byte. A worker of it is started and gets the largest batches: what
    it needed is written beside the archive, as NAME.footprint.json.
    """
    from marina.archive.bundle import pack_bundle
    from marina.archive.pack import pack

    project = find_project()

    def compile_and_pack(model: Spec | Bundle, specs: list[Spec]) -> dict[str, Any]:
        documents = [_compile(spec, project, not as_json) for spec in specs]
        artifacts = [Path(document["artifact"]) for document in documents]
        if isinstance(model, Bundle):
            document: dict[str, Any] = {"name": model.name, "members": documents}
            packed = pack_bundle(model, list(zip(specs, artifacts, strict=True)), project.model_store)
        else:
            document = documents[0]
            packed = pack(model, artifacts[0], project.model_store)
        if not as_json:
            size = packed.path.stat().st_size / 1e6
            say(f"{model.name}: {'unchanged' if packed.reused else 'packed'} {relative(packed.path)} ({size:.1f} MB)")
        document |= {"archive": str(packed.path), "archive_reused": packed.reused}
        return {**document, "footprint": _footprint(packed.path, specs, project, not as_json)}

    for_each_spec(project, names, engine, shapes, compile_and_pack, as_json)


def _footprint(path: Path, specs: list[Spec], project: Project, show: bool) -> dict[str, Any] | None:
    """What a worker of an archive needs, in bytes and seconds; None if it cannot be measured here."""
    from marina.bench.server.footprint import NotReady, footprint_of
    from marina.engines import engine_of

    limits = [spec.memory_mb for spec in specs if spec.memory_mb]
    limit = sum(limits) if len(limits) == len(specs) else None
    if engine_of(specs[0].engine).cores.exclusive:
        if show and limit:
            say(f"{path.stem}: memory_mb is not checked, as its workers need NeuronCores")
        return None
    try:
        with progress_bar(path.stem) as progress:
            workdir = project.root / "build" / "footprints"
            footprint = footprint_of(path, specs, workdir, lambda: progress("measuring what a worker needs", 0, 1))
    except (NotReady, OSError) as error:
        if limit:
            raise
        if show:
            say(f"what a worker needs could not be measured: {error}")
        return None
    peak, resting = (
        (private + footprint.shared_bytes) / 1e6 for private in (footprint.peak_bytes, footprint.resting_bytes)
    )
    if show:
        memory = f"{peak:.0f} MB, {resting:.0f} MB at rest"
        say(f"{path.stem}: a worker needs {memory}, and {footprint.ready_s:.1f} s to start")
    if limit and peak > limit:
        raise MarinaError(
            f"{path.stem}: a worker needs {peak:.0f} MB, and memory_mb is {limit}",
            f"compile fewer shapes (marina shapes {specs[0].name} --graphs N), or raise memory_mb",
        )
    return asdict(footprint)


def _compile(spec: Spec, project: Project, show: bool) -> dict[str, Any]:
    """Compile one model; returns its document for `--json`."""
    from handlers.worker.archive.artifact import ARTIFACT_FILE, read_artifact, read_json
    from marina.compiler import compile_model
    from marina.compiler.graphs.times import read_measured, read_times
    from marina.compiler.lengths import share_too_long, too_long_line
    from marina.engines import engine_of
    from marina.shapes.auto import with_shapes

    start = time.monotonic()
    with progress_bar(spec.name) as progress:
        folder, reused = compile_model(with_shapes(spec, project, progress), project, progress)
    artifact = read_artifact(folder)
    times = read_times(folder)
    recorded = read_json(folder / ARTIFACT_FILE)
    tried, decided = recorded["tried"], recorded["decided"]
    remarks = engine_of(artifact.engine).remarks(artifact.compiler, recorded["graphs"])
    graphs = [
        {"shape": str(graph.shape), "parity": graph.parity, "milliseconds": times.get(graph.shape)}
        for graph in artifact.graphs
    ]
    too_long = share_too_long(artifact, spec, project.root)
    if show:
        outcome = "reused" if reused else f"compiled in {time.monotonic() - start:.1f} s"
        say(
            f"{spec.name}: {outcome}, {len(graphs)} {artifact.engine} {artifact.precision} graphs in {relative(folder)}"
        )
        if not reused:
            _print_tried(tried, read_measured(folder))
            _print_decided(artifact.precision, decided, read_measured(folder))
            judged = any(entry["precision"] == artifact.precision and "value" in entry for entry in tried)
            _print_graphs(artifact, times, judged)
        _print_notes(artifact)
        for remark in remarks:
            say(remark)
        if too_long:
            say(too_long_line(too_long, artifact, spec))
    document = {"name": spec.name, "artifact": str(folder), "reused": reused, "precision": artifact.precision}
    return {**document, "decided": decided, "tried": tried, "graphs": graphs, "remarks": remarks, "too_long": too_long}


def _print_graphs(artifact: Artifact, times: Mapping[Shape, float], judged: bool) -> None:
    """The measurements of each graph, where graphs could be run.

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
        say(f"max difference: to the original model's outputs, on real texts; allowed: {artifact.tolerance:.0e}")


def _print_notes(artifact: Artifact) -> None:
    """Notes on graphs for Neuron."""
    compiler = artifact.compiler
    if not compiler:
        return
    say(f"compiler arguments: {' '.join(compiler['arguments'])}")
    if not compiler["checked"]:
        say(
            "not run yet: there is no free NeuronCore here. Every worker checks the graphs on its own cores before it "
            f"serves; outputs may differ from the reference by {artifact.tolerance:.0e}"
        )
    elif compiler["mitigations"]:
        say(f"outputs were NaN or infinite without these remedies: {', '.join(compiler['mitigations'])}")


def _print_tried(tried: list[dict[str, Any]], measured: dict[str, Any]) -> None:
    """The precisions that were tried: time of the largest graph, and whether answers stay the same."""
    rows = [
        [
            entry["precision"],
            f"{measured['precisions'][entry['precision']]:.2f}",
            f"{entry['measure']} {entry['value']:.4f} (at least {entry['least']})" if "value" in entry else "",
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
    """Why a precision was chosen, where there was a choice."""
    noise = f"noise of {measured['noise']:.0%}"
    reasons = {
        "answers": "no other precision keeps the answers",
        "speed": f"faster than every smaller one, by more than the {noise}",
        "size": f"the smallest; no larger one is faster{f' by more than the {noise}' if measured['noise'] else ''}",
    }
    if decided in reasons:
        say(f"kept {precision}: {reasons[decided]}")
