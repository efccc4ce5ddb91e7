from pathlib import Path

import pytest

from handlers.worker.errors import FAILURE_MARK
from marina.server.management.readiness import failure, log_size

STARTED = "2026-01-01T00:00:00,000 [INFO ] W-9000-m_1.0-stdout MODEL_LOG - Torch worker started."


def log_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "model_log.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def line(text: str, model: str = "m", stream: str = "stdout") -> str:
    return f"2026-01-01T00:00:00,000 [WARN ] W-9001-{model}_1.0-{stream} MODEL_LOG - {text}"


def test_a_worker_that_starts_has_not_failed(tmp_path: Path) -> None:
    assert failure(tmp_path / "missing.log", 0, "m", "1.0") is None
    assert failure(log_of(tmp_path, STARTED, "no line of ours"), 0, "m", "1.0") is None


def test_the_workers_own_reason_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, STARTED, line(f"{FAILURE_MARK} graph 1x16 is damaged", stream="stderr"))
    assert failure(log, 0, "m", "1.0") == "graph 1x16 is damaged"
    assert failure(log, 0, "m2", "1.0") is None
    assert failure(log, 0, "n", "1.0") is None


@pytest.mark.parametrize("name", ["m", "m.x", "a-b_c"])
def test_what_python_raised_stands_in_where_the_handler_did_not_run(tmp_path: Path, name: str) -> None:
    trace = ["Backend worker process died.", "Traceback (most recent call last):", "ImportError: no numpy"]
    log = log_of(tmp_path, *(line(text, name) for text in trace))
    assert failure(log, 0, name, "1.0") == "ImportError: no numpy"


def test_a_worker_that_died_silently_is_said_so(tmp_path: Path) -> None:
    log = log_of(tmp_path, line("Backend worker process died."))
    assert failure(log, 0, "m", "1.0") == "its worker ended without a reason"


def test_an_older_failure_does_not_count(tmp_path: Path) -> None:
    log = log_of(tmp_path, line(f"{FAILURE_MARK} damaged"))
    assert failure(log, log_size(log), "m", "1.0") is None


def test_models_whose_names_begin_alike_are_told_apart(tmp_path: Path) -> None:
    log = log_of(tmp_path, line(f"{FAILURE_MARK} damaged", model="m_2"))
    assert failure(log, 0, "m", "1.0") is None
    assert failure(log, 0, "m_2", "1.0") == "damaged"
