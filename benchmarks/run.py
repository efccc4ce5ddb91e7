"""`make bench`: the benchmark as a whole. See the package's docstring for its parts."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import random
import re
import statistics
import subprocess
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import requests

from benchmarks import bare, load
from benchmarks.picture import draw
from benchmarks.setup import BASE_TOKENS, CONNECTIONS, NEAR, Setup, set_up
from benchmarks.texts import mixed, text
from handlers.worker.artifact import read_artifact
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
    cores = len(os.sched_getaffinity(0))
    with progress_bar("bench") as progress:
        setup = set_up(ROOT, cores, progress)
    ports = Ports(*free_ports(5))
    try:
        with progress_bar("bench") as progress:
            progress("starting TorchServe", 0, 1)
            serve(setup.project, [], ports, 180, lambda _: None)
            result = _measure(setup, ports, cores, progress)
    finally:
        stop(setup.project)
    path = setup.project.root / "result.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    draw(result, path.with_suffix(".png"))
    report(result)
    say(f"written to {path.relative_to(ROOT)} and {path.with_suffix('.png').name} beside it")


def _measure(setup: Setup, ports: Ports, cores: int, progress: Any) -> dict[str, Any]:
    """Every window and the bare graphs in every round, in an order of its own."""
    spawn = multiprocessing.get_context("spawn")
    generator = ProcessPoolExecutor(1, mp_context=spawn)
    # the bare graphs of each model, in as many processes as it has workers
    alone = {
        name: [ProcessPoolExecutor(1, mp_context=spawn) for _ in range(workers)]
        for name, workers in ((NEAR[0], 1), (NEAR[1], cores), ("bert-base", 1))
    }
    texts = {name: mixed() for name in ("usual", *NEAR)} | {"bert-base": _long_texts()}
    windows: dict[Window, list[dict[str, float]]] = defaultdict(list)
    graphs: dict[str, list[dict[str, float]]] = defaultdict(list)
    stages = _Stages(ports.metrics)
    steps = ROUNDS * (len(WINDOWS) + len(alone))
    done = 0
    order = random.Random(0)
    with ExitStack() as stack:
        for process in (generator, *(process for processes in alone.values() for process in processes)):
            stack.enter_context(process)
        for number in range(ROUNDS):
            for name, processes in alone.items():
                progress(f"round {number + 1} of {ROUNDS}: bare graphs of {name}", done, steps)
                graphs[name].append(_bare(processes, setup.artifacts[name], texts[name], cores // len(processes)))
                done += 1
            for window in order.sample(WINDOWS, len(WINDOWS)):
                progress(f"round {number + 1} of {ROUNDS}: {_title(window)}", done, steps)
                before = stages.read(window.model)
                asked = load.requests_of(
                    f"/predictions/{window.model}", _token(setup, ports), _bodies(texts[window.model], window.texts)
                )
                seen: load.Load = generator.submit(
                    load.drive, ports.inference, asked, window.connections, WARM_UP_S, WINDOW_S
                ).result()
                windows[window].append(_figures(seen, window) | stages.shares(before, window.model))
                done += 1
    return {
        "machine": _machine(cores),
        "shapes": {name: [str(shape) for shape in shapes] for name, shapes in setup.shapes.items()},
        "precision": read_artifact(setup.artifacts[NEAR[0]]).precision,
        "window_seconds": WINDOW_S,
        "bare": graphs,
        "windows": [{**window._asdict(), "rounds": found} for window, found in windows.items()],
        "resident_megabytes": _resident(setup),
    }


def _bare(processes: list[ProcessPoolExecutor], artifact: Path, texts: list[str], cores: int) -> dict[str, float]:
    """The bare graphs in all processes at the same time; rates add up."""
    for seconds in (0.0, 2 * WINDOW_S):  # first to load
        futures = [process.submit(bare.measure, artifact, texts, cores, seconds) for process in processes]
        found = [future.result() for future in futures]
    return {**found[0]._asdict(), "rows_per_s": sum(one.rows_per_s for one in found)}


def _long_texts() -> list[str]:
    source = random.Random(1)
    return [text(BASE_TOKENS, source) for _ in range(64)]


def _bodies(texts: list[str], count: int) -> list[bytes]:
    if count == 1:
        return [json.dumps({"inputs": one}).encode() for one in texts]
    return [json.dumps({"inputs": texts[i : i + count]}).encode() for i in range(0, len(texts), count)]


def _token(setup: Setup, ports: Ports) -> str:
    return token(setup.project.run, "inference", ports.management)


def _figures(seen: load.Load, window: Window) -> dict[str, float]:
    ordered = sorted(seen.milliseconds) or [float("nan")]
    return {
        "texts_per_s": len(seen.milliseconds) * window.texts / seen.seconds,
        "p50_ms": ordered[len(ordered) // 2],
        "p99_ms": ordered[int(len(ordered) * 0.99)],
        "errors": seen.errors,
        "generator_cpu": seen.cpu_seconds / seen.seconds,
    }


class _Stages:
    """Where workers spend their time, from TorchServe's metrics."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"

    def read(self, model: str) -> dict[str, float]:
        lines = requests.get(self._url, timeout=10).text.splitlines()
        pattern = re.compile(rf'marina_stage_seconds_total{{stage="(\w+)",ModelName="{model}".*}} (\S+)')
        return {found[1]: float(found[2]) for line in lines if (found := pattern.match(line))}

    def shares(self, before: dict[str, float], model: str) -> dict[str, float]:
        spent = {stage: value - before.get(stage, 0.0) for stage, value in self.read(model).items()}
        return {f"share_{stage}": value / sum(spent.values()) for stage, value in spent.items() if sum(spent.values())}


def _resident(setup: Setup) -> dict[str, float]:
    """Resident megabytes of one worker of each model."""
    found = status(setup.project)
    models = found[1] if found else []
    return {model.name: psutil.Process(model.pids[0]).memory_info().rss / 1e6 for model in models}


def _machine(cores: int) -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    packages = ("marina", "torchserve", "torch", "openvino", "tokenizers", "transformers")
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": cores,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "revision": revision.stdout.strip(),
        "command": "make bench",
    }


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
