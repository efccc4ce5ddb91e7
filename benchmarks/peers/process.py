"""Installs a peer in its own virtual environment, and runs its server."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.peers.settings import Peer, request_bodies
from marina.bench.load.profile import Load, Target
from marina.bench.load.runner import measure
from marina.errors import MarinaError
from marina.server.run.ports import free_ports

HERE = Path(__file__).parent
START_S = 180


def install(packages: str, folder: Path) -> None:
    """Create a virtual environment with a peer's packages; recreated only if its requirements change.

    Raises:
        MarinaError: pip cannot install them.
    """
    requirements = HERE / f"{packages}.txt"
    home = folder / "venvs" / packages
    stamp = home / "installed.txt"
    if stamp.exists() and stamp.read_text() == requirements.read_text():
        return
    _run([sys.executable, "-m", "venv", "--clear", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "-r", str(requirements)])
    stamp.write_text(requirements.read_text())


def texts_file(task: str) -> str:
    """The name of the file with the texts for quantization, in the folder of the peers."""
    return f"texts-{task}.json"


class Running(NamedTuple):
    """A peer's server: where its requests go, and its process."""

    target: Target
    pid: int


@contextmanager
def running(peer: Peer, source: Path, folder: Path, cores: int) -> Iterator[Running]:
    """Run the peer's server during the block; yields after its first answer.

    Args:
        peer: peer to start.
        source: folder of the model.
        folder: folder of the virtual environments, prepared models, logs, and of texts for quantization.
        cores: number of cores to divide among its workers.

    Raises:
        MarinaError: the model cannot be prepared, or the server does not answer within three minutes.
    """
    (port,) = free_ports(1)
    target = Target("rest", "127.0.0.1", port, (peer.path,))
    model = _prepared(peer, source, folder) if peer.prepare else source
    threads = str(max(1, cores // peer.workers))
    environment = {
        **_environment(),
        **{"PEER_MODEL": str(model), "PEER_WORKERS": str(peer.workers), "PEER_THREADS": threads},
        **{"PEER_LIBRARY": peer.library, "PEER_TASK": peer.task, "OMP_NUM_THREADS": threads},
        "TOKENIZERS_PARALLELISM": "true" if threads != "1" else "false",
    }
    # infinity finds an exported model only if it runs in the model's folder
    work_folder, model_argument = (model, Path()) if peer.prepare else (folder, model)
    log_file = folder / f"{peer.name}, {peer.task}, {peer.workers}.log"
    command = _words(peer.start, peer, model_argument, source, folder, port)
    with TemporaryDirectory() as temp, log_file.open("w") as log:
        environment["TMPDIR"] = temp
        process = subprocess.Popen(
            command, cwd=work_folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            if not _wait_for_answer(peer, target, process):
                raise MarinaError(f"it did not start; see {log_file}")
            yield Running(target, process.pid)
        finally:
            with suppress(ProcessLookupError):  # it has already exited
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _prepared(peer: Peer, source: Path, folder: Path) -> Path:
    """The folder of the model in the peer's format, which is made once for all that it is made from."""
    assert peer.prepare
    inputs = [source / name for name in ("model.safetensors", "config.json", "tokenizer.json")]
    inputs += [HERE / f"{peer.packages}.txt", HERE / "quantize.py", HERE / "gguf_model.py"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (*inputs, folder / texts_file(peer.task))))
    model = folder / "models" / f"{peer.library}-{peer.task}-{digest.hexdigest()[:12]}"
    if not model.exists():
        unfinished = model.with_name(f"{model.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _run(_words(peer.prepare, peer, unfinished, source, folder))
        unfinished.rename(model)
    return model


def _environment() -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "HF_HUB_OFFLINE": "1",
        # otherwise infinity sends usage statistics
        **{"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"},
    }


def _run(command: list[str]) -> None:
    process = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise MarinaError(f"{shlex.join(command)} failed: {last_line}")


def _words(command: str, peer: Peer, model: Path, source: Path, folder: Path, port: int = 0) -> list[str]:
    paths = {"bin": folder / "venvs" / peer.packages / "bin", "here": HERE, "model": model, "source": source}
    values = {"port": port, "workers": peer.workers, "library": peer.library, "task": peer.task}
    return shlex.split(command.format(**paths, **values, texts=folder / texts_file(peer.task)))


def _wait_for_answer(peer: Peer, target: Target, process: subprocess.Popen[bytes]) -> bool:
    """Wait for a successful answer; False if the process exits, or after three minutes."""
    one_request = Load(connections=1, warm_up_s=0, requests=1, timeout_s=60)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            listening = probe.connect_ex((target.host, target.port)) == 0
        if listening and measure(target, request_bodies(peer.format, ["hello"], 1), 1, one_request).requests:
            return True
        time.sleep(0.5)
    return False
