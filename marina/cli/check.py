"""`marina check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handlers.worker.values import Shape
from marina.cli.each import for_each_spec
from marina.cli.options import EngineOption, JsonOption, Names, ShapesOption
from marina.console import print_table, relative, say, spinner
from marina.project import find_project
from marina.spec.bundle import Bundle

if TYPE_CHECKING:
    from marina.compiler.forecast import Forecast
    from marina.spec import Spec


def check(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Check specs before any work: fields, source, tokenizer, and what compiling would take.

    Nothing is compiled and no weights are loaded. Exits with 1 if a model could not be compiled.
    """
    from handlers.worker.archive.artifact import read_artifact
    from marina.compiler.forecast import forecast
    from marina.compiler.lengths import share_too_long, too_long_line
    from marina.shapes.auto import with_known_shapes

    project = find_project()

    def check_spec(spec: Spec) -> dict[str, Any]:
        with spinner() as report:
            report(f"checking {spec.name}")
            chosen = with_known_shapes(spec, project)
            prediction = forecast(chosen, project)
            compiled = read_artifact(prediction.artifact) if prediction.compiled else None
            too_long = share_too_long(compiled, chosen, project.root) if compiled else None
        shapes_known = chosen.shapes.auto is None
        if not as_json:
            _print(spec.name, prediction, shapes_known)
        if not as_json and compiled and too_long:
            say(too_long_line(too_long, compiled, chosen))
        document = {"name": spec.name, **vars(prediction), "artifact": str(prediction.artifact), "too_long": too_long}
        return document if shapes_known else {**document, "shapes": None}

    def check_all(model: Spec | Bundle, specs: list[Spec]) -> dict[str, Any]:
        checked = [check_spec(spec) for spec in specs]
        return {"name": model.name, "members": checked} if isinstance(model, Bundle) else checked[0]

    for_each_spec(project, names, engine, shapes, check_all, as_json)


def _print(name: str, prediction: Forecast, shapes_known: bool) -> None:
    precisions_text = (
        f", tries {', '.join(prediction.precisions)}"
        if len(prediction.precisions) > 1
        else f", {prediction.precisions[0]}"
    )
    if prediction.compiled:
        work = f"none: it is compiled already, in {relative(prediction.artifact)}"
    elif prediction.seconds is None:
        work = "minutes for each graph; no graph has been compiled for this engine here yet"
    else:
        work = f"about {prediction.seconds:.0f} s"
    graphs = f"{len(prediction.shapes)}: {', '.join(prediction.shapes)}"
    if not shapes_known:
        longest = max(Shape.parse(shape).sequence_length for shape in prediction.shapes)
        graphs = f"up to {longest} tokens; marina archive chooses the shapes"
    rows = [
        ["task", prediction.task],
        ["model", f"{prediction.architecture}, {prediction.weights / 1e6:.1f} million weights"],
        ["tokenizer", prediction.tokenizer],
        ["engine", f"{prediction.engine}{precisions_text}"],
        ["graphs", graphs],
        ["artifact", f"at most {prediction.artifact_bytes / 1e6:.0f} MB"],
        ["memory to compile", f"{prediction.memory_bytes / 1e9:.1f} GB, {prediction.free_bytes / 1e9:.1f} GB are free"],
        ["time to compile", work],
    ]
    print_table([name, "the spec, its source and its tokenizer are fine"], rows)
