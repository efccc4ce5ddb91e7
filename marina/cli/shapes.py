"""`marina shapes`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marina.cli.options import EngineOption, JsonOption
from marina.console import print_json, print_table, progress_bar, relative, say
from marina.errors import SpecError
from marina.project import find_project
from marina.spec import read_spec

if TYPE_CHECKING:
    from marina.shapes.advice import Advice

BAR = 40  # characters of the longest bar


def shapes(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Model.")],
    lengths: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Texts like those to serve (.csv or .jsonl with the task's fields, or with lengths in a field "
            "tokens), or a histogram (.json, tokens to count). Default: the spec's examples.",
        ),
    ] = None,
    graphs: Annotated[
        int | None,
        typer.Option(min=1, max=64, metavar="N", help="Maximum number of graphs. Default: as many as pay off."),
    ] = None,
    price: Annotated[
        float,
        typer.Option(
            min=0, metavar="PERCENT", help="Percent of the best possible time that each further graph must save."
        ),
    ] = 1.0,
    bulk: Annotated[
        bool, typer.Option("--bulk", metavar="", help="Choose for jobs in bulk only, where every batch is full.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", metavar="", help="Choose for the rows that the running server has computed so far."),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --live: the metrics page of another server, http://HOST:8082/metrics."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", metavar="", help="Write the shapes into models/NAME.yaml.")] = False,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the shapes to compile, from the lengths of texts and the speed of graphs on this machine.

    Chooses on one half of the texts and reports on the other: padding and time per text, one at a
    time and in full batches, with the current shapes and with the chosen ones. Each graph costs time
    to compile and memory in every worker; both are printed. Without texts, it proposes lengths that
    grow by a constant ratio, and reports the largest possible share of padding. The longest current
    shape stays, because it decides how much of a text is read.
    """
    from marina.shapes.advice import advise
    from marina.shapes.auto import with_known_shapes
    from marina.shapes.live import live_lengths
    from marina.shapes.picture import draw
    from marina.shapes.write import write_shapes

    project = find_project()
    path = project.models / f"{name}.yaml"
    spec = with_known_shapes(read_spec(path, {"engine": engine} if engine else None), project)
    if lengths is not None and lengths.suffix not in (".csv", ".jsonl", ".json"):
        raise SpecError(f"{lengths}: lengths are read from .csv, .jsonl and .json")
    if lengths is not None and live:
        raise SpecError("--lengths and --live both say how long texts are; give one of them")
    if url and not live:
        raise SpecError("--url is for --live")
    served_lengths = live_lengths(name, project, url) if live else None
    with progress_bar(name) as progress:
        advice = advise(spec, project, served_lengths or lengths, graphs, price / 100, progress, bulk)
    picture = project.root / "build" / "shapes" / f"{name}.svg"
    if advice.lengths:
        draw(advice, name, picture)
    if write:
        write_shapes(path, advice.shapes)
    if as_json:
        print_json(
            {
                "shapes": [str(shape) for shape in advice.shapes],
                "before": [effect._asdict() for effect in advice.before],
                "after": [effect._asdict() for effect in advice.after],
                "considered": {
                    name: [str(shape) for shape in candidate.shapes] for name, candidate in advice.considered.items()
                },
                "waste_bound": advice.waste_bound,
                "seconds_to_compile": round(advice.seconds * len(advice.shapes), 1),
                "megabytes": round(advice.megabytes * len(advice.shapes)),
                **{f"{limit.key}_graphs_a_core": limit.graphs for limit in advice.graph_limits},
            }
        )
        return
    say(f"shapes: {', '.join(map(str, advice.shapes))}")
    if advice.waste_bound is None:
        _print_lengths(advice.lengths, sorted({shape.sequence_length for shape in advice.shapes}))
        _print_effects(advice)
        say(_savings(advice))
        say(f"picture: {relative(picture)}")
    else:
        say(f"no texts are known: at most {advice.waste_bound:.0%} of a row longer than the shortest shape is padding")
    cost = f"{advice.seconds * len(advice.shapes):.0f} s to compile, {advice.megabytes * len(advice.shapes):.0f} MB"
    say(f"{len(advice.shapes)} graphs take about {cost} in each worker; times were fitted within {advice.error:.0%}")
    if advice.unpacked_reason:
        say(f"several texts cannot share a row: {advice.unpacked_reason}")
    for limit in advice.graph_limits:
        say(f"on {limit.device} a core has room for about {limit.graphs} graphs of this model")
    if write:
        say(f"written to {relative(path)}; to serve with them: marina archive {name}, then marina upgrade {name}")
    else:
        say(f"to use them: marina shapes {name}{' --live' if live else ''} --write")


def _savings(advice: Advice) -> str:
    """What the chosen shapes change, in a sentence."""
    parts = []
    for situation, before, after in zip(("alone", "in full batches"), advice.before, advice.after, strict=True):
        change = 1 - after.milliseconds / before.milliseconds
        parts.append(f"{abs(change):.0%} {'less' if change >= 0 else 'more'} time for a text {situation}")
    return f"the chosen shapes take {' and '.join(parts)}"


def _print_lengths(lengths: list[int], levels: list[int]) -> None:
    """How many texts each sequence length is the smallest for."""
    counts = [sum(low < tokens <= high for tokens in lengths) for low, high in pairwise([0, *levels])]
    rows = [
        [f"up to {level}", "█" * round(BAR * count / max(counts)), f"{count / len(lengths):.1%}"]
        for level, count in zip(levels, counts, strict=True)
    ]
    print_table(["tokens", "texts", ""], rows, numbers=1)


def _print_effects(advice: Advice) -> None:
    rows = []
    for name, (shapes, effects) in advice.considered.items():
        cells = [cell for effect in effects for cell in (f"{effect.waste:.0%}", f"{effect.milliseconds:.2f}")]
        costs = [f"{cost_per_graph * len(shapes):.0f}" for cost_per_graph in (advice.seconds, advice.megabytes)]
        mark = " (chosen)" if shapes == advice.shapes else ""
        rows.append([name + mark, str(len(shapes)), *cells, *costs])
    batch_rows = advice.after[1].rows
    columns = ["", "graphs", "padding, alone", "ms a text", f"padding, batches of {batch_rows}", "ms a text"]
    print_table([*columns, "s to compile", "MB"], rows, numbers=7)
