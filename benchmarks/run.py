"""`make bench`: the benchmark as a whole. See the package's docstring for its parts."""

from __future__ import annotations

import json
import random
import statistics
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.picture import draw
from benchmarks.setup import CONNECTIONS, NEAR, Setup, set_up
from handlers.worker.artifact import read_artifact
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.values import Instance
from marina.bench.bare import bare_graphs
from marina.bench.bert_base import bert_texts
from marina.bench.inside import Inside
from marina.bench.load import Load
from marina.bench.machine import machine
from marina.bench.measure import measure
from marina.bench.measured import Measured
from marina.bench.mix import mixed
from marina.bench.served import target_of
from marina.bench.texts import bodies_of
from marina.console import print_table, progress_bar, say
from marina.server import serve, status, stop
from marina.server.config import free_ports
from marina.server.state import Ports
from marina.server.tokens import token

ROOT = Path(__file__).parent.parent
ROUNDS = 3
WARM_UP_S, WINDOW_S = 1.0, 4.0
TEXTS_AT_ONCE = 32


class Window(NamedTuple):
    """One way to ask: which model, how many texts a request, how many connections."""

    model: str
    texts: int
    connections: int


WINDOWS = [
    *(Window(model, 1, connections) for model in ("usual", *NEAR) for connections in (1, 16, CONNECTIONS)),
    *(Window(model, TEXTS_AT_ONCE, connections) for model in NEAR for connections in (1, 16, CONNECTIONS)),
    Window("bert-base", 1, 16),
]


def main() -> None:
    """Set up, measure in rounds, and report."""
    cores = len(cpu_cores())
    with progress_bar("bench") as progress:
        setup = set_up(ROOT, cores, progress)
    ports = Ports(*free_ports(5))
    try:
        with progress_bar("bench") as progress:
            progress("starting TorchServe", 0, 1)
            serve(setup.project, [], ports, 180, lambda _: None)
            result = _measure(setup, ports, progress)
    finally:
        stop(setup.project)
    path = setup.project.root / "result.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    draw(result, path.with_suffix(".png"))
    report(result)
    say(f"written to {path.relative_to(ROOT)} and {path.with_suffix('.png').name} beside it")


def _measure(setup: Setup, ports: Ports, progress: Any) -> dict[str, Any]:
    """Every window and the bare graphs in every round, in an order of its own."""
    texts = {name: mixed() for name in ("usual", *NEAR)} | {"bert-base": bert_texts()}
    windows: dict[Window, list[dict[str, float]]] = defaultdict(list)
    graphs: dict[str, list[dict[str, float]]] = defaultdict(list)
    key = token(setup.project.run, "inference", ports.management)
    steps = ROUNDS * (len(WINDOWS) + len(setup.specs))
    done = 0
    order = random.Random(0)
    with ExitStack() as stack:
        progress("loading bare graphs", 0, steps)
        alone = {
            name: stack.enter_context(
                bare_graphs(spec, setup.artifacts[name], [Instance(text) for text in texts[name]])
            )
            for name, spec in setup.specs.items()
        }
        for number in range(ROUNDS):
            for name, bare in alone.items():
                progress(f"round {number + 1} of {ROUNDS}: bare graphs of {name}", done, steps)
                seen = bare.run(2 * WINDOW_S)
                graphs[name].append({**seen._asdict(), "alone_ms": seen.alone_ms})
                done += 1
            for window in order.sample(WINDOWS, len(WINDOWS)):
                progress(f"round {number + 1} of {ROUNDS}: {_title(window)}", done, steps)
                target = target_of(window.model, "rest", "127.0.0.1", ports.inference, key)
                inside = Inside(ports.metrics, window.model)
                bodies = bodies_of(list(texts[window.model]), window.texts)
                load = Load(window.connections, warm_up_s=WARM_UP_S, window_s=WINDOW_S, seconds=WINDOW_S)
                measured = measure(target, bodies, window.texts, load)
                windows[window].append(_figures(measured, inside.since()))
                done += 1
    return {
        "machine": {**machine(), "command": "make bench"},
        "shapes": {name: [str(shape) for shape in shapes] for name, shapes in setup.shapes.items()},
        "precision": read_artifact(setup.artifacts[NEAR[0]]).precision,
        "window_seconds": WINDOW_S,
        "bare": graphs,
        "windows": [{**window._asdict(), "rounds": found} for window, found in windows.items()],
        "resident_megabytes": _resident(setup),
    }


def _figures(measured: Measured, inside: dict[str, Any] | None) -> dict[str, Any]:
    shares = inside["stage_share"] if inside else {}
    return {
        "texts_per_s": measured.throughput,
        "p50_ms": measured.latency_ms["p50"],
        "p99_ms": measured.latency_ms["p99"],
        "errors": measured.failed,
        "generator_cpu": measured.generator["cpu"],
        **{f"share_{stage}": share for stage, share in shares.items()},
    }


def _resident(setup: Setup) -> dict[str, float]:
    """Resident megabytes of one worker of each model."""
    found = status(setup.project)
    models = found[1] if found else []
    return {model.name: psutil.Process(model.pids[0]).memory_info().rss / 1e6 for model in models}


def _title(window: Window) -> str:
    return f"{window.model}, {window.texts} a request, {window.connections} connections"


def report(result: dict[str, Any]) -> None:
    """Print what was measured, and the ratios, which are taken within each round."""
    near = result["bare"][NEAR[0]]
    usual = {(w["texts"], w["connections"]): w["rounds"] for w in result["windows"] if w["model"] == "usual"}
    rows = [
        [f"{name}, bare", "", "", _median(rounds, "rows_per_s"), "", "", "", ""]
        for name, rounds in result["bare"].items()
    ]
    for window in sorted(result["windows"], key=lambda w: (w["model"] == "bert-base", w["texts"], w["connections"])):
        rounds = window["rounds"]
        ceiling = result["bare"].get(window["model"])
        of_bare = _ratio(rounds, "texts_per_s", ceiling, "rows_per_s") if ceiling else None
        same = usual.get((window["texts"], window["connections"])) if window["model"] in NEAR else None
        of_usual = _ratio(rounds, "texts_per_s", same, "texts_per_s") if same else None
        rows.append(
            [
                window["model"],
                str(window["texts"]),
                str(window["connections"]),
                _median(rounds, "texts_per_s"),
                _median(rounds, "p50_ms", 1),
                _median(rounds, "p99_ms", 1),
                f"{of_bare:.0%}" if of_bare else "",
                f"{of_usual:.1f}x" if of_usual else "",
            ]
        )
    columns = ["", "texts", "conn.", "texts/s", "p50 ms", "p99 ms", "of bare", "of usual"]
    print_table(columns, rows, numbers=7)
    for name, shapes in result["shapes"].items():
        say(f"{name}: {result['precision']}, graphs {', '.join(shapes)}")
    alone, paced = _median(near, "alone_ms", 2), _median(near, "paced_ms", 2)
    say(f"a text alone in its bare graph: {alone} ms, with pauses as between requests {paced} ms")
    for window in result["windows"]:
        if window["model"] in NEAR and window["connections"] == CONNECTIONS:
            shares = {
                name: statistics.median(found[name] for found in window["rounds"])
                for name in sorted(window["rounds"][0])
                if name.startswith("share_")
            }
            told = ", ".join(f"{name.removeprefix('share_')} {share:.1%}" for name, share in shares.items())
            say(f"{window['model']}, {window['texts']} texts a request: of a worker's time {told}")
    resident = result["resident_megabytes"]
    say(
        f"resident: worker {resident[NEAR[0]]:.0f} MB, worker that does nothing {resident['nothing']:.0f} MB, "
        f"bare graphs {_median(near, 'megabytes')} MB"
    )


def _median(rounds: list[dict[str, float]], name: str, digits: int = 0) -> str:
    return f"{statistics.median(found[name] for found in rounds):.{digits}f}"


def _ratio(rounds: list[dict[str, float]], name: str, others: list[dict[str, float]], other_name: str) -> float:
    return statistics.median(one[name] / other[other_name] for one, other in zip(rounds, others))


if __name__ == "__main__":
    main()
