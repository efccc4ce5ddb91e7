"""`make bench-peers`: installs the peers, measures them and Marina in turns, one at a time, and prints the ratios."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.peers import ONNX_TASKS, Peer, peers
from handlers.worker.placement.discovery import cpu_cores
from marina.bench.load import Load, Target
from marina.bench.measure import measure
from marina.bench.measured import Measured
from marina.bench.mix import mixed
from marina.bench.report.write import show, write_reports
from marina.bench.result import Result
from marina.bench.stage import Stage, stage
from marina.bench.tables.ways import USUAL, Way, measure_ways, served_way
from marina.bench.texts import Asked, bodies_of
from marina.bench.usual.pack import pack_usual
from marina.compiler.source import find_source
from marina.console import Progress, progress_bar, say
from marina.errors import MarinaError
from marina.project import Project, find_project
from marina.server.config import free_ports
from marina.spec import make_spec, read_spec

HERE = Path(__file__).parent
MODELS = {"text-classification": "ava-intent", "sentence-embedding": "resume-search"}
CONNECTIONS = (1, 32)
ROUNDS, SECONDS = 3, 5.0
START_S = 180
USUAL_TOKENS, USUAL_BATCH = 128, 6


def main() -> None:
    """Install, measure, report."""
    project = find_project()
    cores = len(cpu_cores())
    wanted = peers(cores)
    folder = project.root / "build" / "bench" / "peers"
    for packages in sorted({peer.packages for peer in wanted}):
        install(packages, folder)
    asked = mixed()
    with progress_bar("peers") as progress, stage(project, "stage", progress) as own:
        sources = {
            task: find_source(read_spec(project.models / f"{name}.yaml").source, project.root)
            for task, name in MODELS.items()
        }
        # before half an hour is spent
        wanted, failures = _that_start(wanted, sources, folder, cores, progress)
        usual = own.project.root / "usual"
        source = sources["text-classification"]
        pack_usual(source, "usual", own.project.model_store, usual, USUAL_TOKENS, USUAL_BATCH)
        ways = []
        for connections in CONNECTIONS:
            load = Load(connections=connections, window_s=SECONDS, seconds=SECONDS)
            ways += [_peer_way(peer, sources[peer.task], folder, cores, asked, load) for peer in wanted]
            ways += _own_ways(own, project, cores, asked, load)
        entries = measure_ways(ways, ROUNDS, progress)
    result = Result(
        "peers",
        "Marina and others, one text a request",
        entries,
        baseline={"way": USUAL},
        more={"failures": failures},
        command="make bench-peers",
    )
    write_reports(result, folder)
    show(result, folder)
    for quote in dict.fromkeys(f"{peer.name}: {peer.quote}" for peer in wanted):
        say(quote)


def install(packages: str, folder: Path) -> None:
    """A virtual environment with a peer's packages, made once for each state of its requirements."""
    wanted = HERE / "requirements" / f"{packages}.txt"
    home = folder / "venvs" / packages
    stamp = home / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return
    say(f"installing {packages} into {home}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(wanted)], check=True)
    stamp.write_text(wanted.read_text())


def _that_start(
    wanted: list[Peer], sources: dict[str, Path], folder: Path, cores: int, progress: Progress
) -> tuple[list[Peer], list[str]]:
    """The peers that start and answer here, and what is to be said of the others."""
    found, failures = [], []
    for done, peer in enumerate(wanted):
        progress(f"starting {peer.name}", done, len(wanted))
        try:
            with _running(peer, sources[peer.task], folder, cores):
                found.append(peer)
        except (MarinaError, subprocess.CalledProcessError) as error:
            failures.append(f"{peer.name}, {peer.task}: {error}")
    return found, failures


def _own_ways(own: Stage, project: Project, cores: int, texts: list[str], load: Load) -> list[Way]:
    """Marina's own ways, and the usual TorchServe handler."""
    asked = Asked(bodies_of(list(texts), 1), 1, "built-in mix")
    found = [served_way(own, {"model": MODELS["text-classification"], "way": USUAL}, "usual", load, asked)]
    groups = ",".join(["1"] * cores)
    for model in MODELS.values():
        base = read_spec(project.models / f"{model}.yaml").model_dump(exclude_defaults=True)
        for precision, core_groups, told in (
            ("f32", groups, f"{cores} workers"),
            ("auto", groups, f"{cores} workers"),
            ("auto", None, "1 worker"),
        ):
            spec = make_spec({**base, "precision": precision, "core_groups": core_groups})
            found.append(served_way(own, {"model": model, "way": f"Marina {precision}, {told}"}, spec, load, asked))
    return found


def _peer_way(peer: Peer, source: Path, folder: Path, cores: int, texts: list[str], load: Load) -> Way:
    def run() -> tuple[dict[str, Any], Measured]:
        with _running(peer, source, folder, cores) as port:
            target = Target("rest", "127.0.0.1", port, peer.path)
            measured = measure(target, peer.bodies(texts), 1, load)
        told = {"connections": load.connections, "instances": 1, "texts": "built-in mix", "protocol": "rest"}
        return {**told, "workers": peer.workers}, measured

    return Way({"model": MODELS[peer.task], "way": peer.name}, run)


@contextmanager
def _running(peer: Peer, source: Path, folder: Path, cores: int) -> Iterator[int]:
    """The peer's server while the block runs; gives its port once it has answered."""
    (port,) = free_ports(1)
    model = source
    if peer.export:
        model = folder / "onnx" / peer.task
        if not (model / "model.onnx").exists():
            subprocess.run(_words(peer.export, peer, model, source, port, folder), check=True, capture_output=True)
    threads = str(max(1, cores // peer.workers))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        **{"PEER_MODEL": str(model), "PEER_WORKERS": str(peer.workers), "PEER_THREADS": threads},
        **{"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"},
        # infinity tells its makers of its use
        **{"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"},
    }
    # infinity finds an exported model only from within its folder
    here, name = (model, Path()) if peer.export else (folder, model)
    with (folder / "peer.log").open("w") as log:
        process = subprocess.Popen(
            _words(peer.start, peer, name, source, port, folder),
            cwd=here,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait(peer, port, process, folder)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _words(command: str, peer: Peer, model: Path, source: Path, port: int, folder: Path) -> list[str]:
    return shlex.split(
        command.format(
            bin=folder / "venvs" / peer.packages / "bin",
            here=HERE,
            model=model,
            source=source,
            port=port,
            workers=peer.workers,
            onnx_task=ONNX_TASKS[peer.task],
        )
    )


def _wait(peer: Peer, port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Until it gives a good answer."""
    once = Load(connections=1, warm_up_s=0, requests=1, timeout_s=60)
    target = Target("rest", "127.0.0.1", port, peer.path)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            listening = probe.connect_ex(("127.0.0.1", port)) == 0
        if listening and measure(target, peer.bodies(["hello"]), 1, once).requests:
            return
        time.sleep(0.5)
    raise MarinaError(f"{peer.name} did not start; see {folder / 'peer.log'}")


if __name__ == "__main__":
    main()
