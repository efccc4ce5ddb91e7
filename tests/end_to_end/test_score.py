"""`marina score` as a person runs it: killed, interrupted, beside others, and with a database that goes away."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from handlers.worker.archive.unpack import PARTIAL
from marina.project import Project
from tests.conftest import ROOT
from tests.marina.score.archives import project_with, texts_of
from tests.marina.score.postgres import postgres

pytestmark = pytest.mark.long
ROWS = 20_000
SAME = ("--input", "postgresql://host/db", "--table", "t", "--output", "postgresql://host/db", "--to", "t")
KILLS = 6


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "marina", "score", *arguments]


def start(project: Project, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(*arguments), cwd=project.root, env=environment, **{**pipes, **options})


def run(project: Project, *arguments: str, expect: int = 0) -> str:
    """Run `marina score`; returns what it printed."""
    process = start(project, *arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == expect, err
    return out if not expect else err


@pytest.fixture(scope="module")
def intent(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the archive of a classifier."""
    return project_with(tmp_path_factory.mktemp("bulk"), "intent")


@pytest.fixture(scope="module")
def rows(intent: Project) -> Path:
    """A file of rows, some of which cannot be answered."""
    path = intent.root / "rows.parquet"
    texts: list[str | None] = list(texts_of(ROWS))
    texts[17], texts[4321] = None, "x " * 200_000
    pq.write_table(pa.table({"id": list(range(ROWS)), "text": texts}), path, row_group_size=1000)
    return path


@pytest.fixture(scope="module")
def unbroken(intent: Project, rows: Path) -> list[dict[str, Any]]:
    """The answers of a run that nothing interrupts."""
    run(intent, "intent", "--input", str(rows), "--output", "unbroken.parquet", "--keep", "id")
    found: list[dict[str, Any]] = pq.read_table(intent.root / "unbroken.parquet").to_pylist()
    assert [row["id"] for row in found] == list(range(ROWS))
    assert [row["id"] for row in found if row["error"]] == [17, 4321]
    return found


@pytest.fixture(scope="module")
def database(rows: Path) -> Iterator[str]:
    """A database with the same rows."""
    with postgres() as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE rows (id int PRIMARY KEY, text text)")
            with connection.cursor().copy("COPY rows FROM STDIN") as copy:
                for row in pq.read_table(rows).to_pylist():
                    copy.write_row((row["id"], row["text"]))
        yield url


def kill_now_and_then(project: Project, arguments: list[str], seed: int) -> None:
    """Kill the command -9 at random moments a few times, then let it end."""
    chosen = random.Random(seed)
    for _ in range(KILLS):
        process = start(project, *arguments, start_new_session=True)
        try:
            process.communicate(timeout=chosen.uniform(1, 5))
        except subprocess.TimeoutExpired:
            if chosen.random() < 0.5:
                process.kill()  # the command alone: its processes must end by themselves
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    run(project, *arguments)


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by id, without what differs in the last digits between plans."""
    ordered = sorted(found, key=lambda row: int(row["id"]))
    return [{**row, "score": None if row["score"] is None else round(row["score"], 3)} for row in ordered]


@pytest.mark.parametrize("name", ["folder", "one.parquet"])
def test_killed_at_any_moment_every_row_is_answered_once(
    intent: Project, rows: Path, unbroken: list[dict[str, Any]], name: str
) -> None:
    output = intent.root / name
    arguments = ["intent", "--input", str(rows), "--output", str(output), "--keep", "id"]
    kill_now_and_then(intent, arguments, seed=len(name))
    found = pq.read_table(output).to_pylist()
    assert [row["id"] for row in found] == list(range(ROWS))
    assert in_order(found) == in_order(unbroken)
    assert not list(intent.root.rglob("*.tmp"))
    assert "was complete already" in run(intent, *arguments)


def answers_in(database: str, table: str) -> list[dict[str, Any]]:
    with psycopg.connect(database, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(f"SELECT * FROM {table}".encode()).fetchall()


def test_killed_at_any_moment_a_table_is_exact(intent: Project, database: str, unbroken: list[dict[str, Any]]) -> None:
    there = ["--output", database, "--to", "killed", "--keep", "id"]
    kill_now_and_then(intent, ["intent", "--input", database, "--table", "rows", *there], seed=5)
    assert in_order(answers_in(database, "killed")) == in_order(unbroken)


def test_two_at_once_share_a_table(intent: Project, database: str, unbroken: list[dict[str, Any]]) -> None:
    arguments = ["intent", "--input", database, "--table", "rows", "--output", database, "--to", "shared", "--json"]
    both = [start(intent, *arguments, "--keep", "id", "--core-groups", "1") for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert all(document["rows"] == ROWS and document["complete"] for document in documents)
    assert sum(document["rows_here"] for document in documents) == ROWS
    assert in_order(answers_in(database, "shared")) == in_order(unbroken)


def test_a_database_that_goes_away(intent: Project, rows: Path) -> None:
    with postgres() as url:
        arguments = ["intent", "--input", str(rows), "--output", url, "--to", "answers", "--keep", "id"]
        process = start(intent, *arguments)
        while True:  # until the first shard is done
            with psycopg.connect(url) as connection:
                (made,) = connection.execute("SELECT to_regclass('marina_shards')").fetchone() or (None,)
                done = made and connection.execute("SELECT FROM marina_shards WHERE done IS NOT NULL").fetchone()
            if done is not None and made:
                break
            time.sleep(0.05)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert f"{ROWS:,} rows" in out
        assert sorted(row["id"] for row in answers_in(url, "answers")) == list(range(ROWS))


def test_interrupted_once_it_ends_after_the_shard_and_says_how_to_go_on(
    intent: Project, rows: Path, unbroken: list[dict[str, Any]]
) -> None:
    output = intent.root / "interrupted"
    arguments = ["intent", "--input", str(rows), "--output", str(output), "--keep", "id"]
    process = start(intent, *arguments)
    while not list(output.glob("part-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "ending after the shards at hand; press Ctrl-C again to end at once" in err
    assert "the same command goes on where this ended" in out
    assert 0 < len(list(output.glob("part-*"))) < 16
    assert f"{ROWS:,} rows, {ROWS - 2:,} answered, 2 errors" in run(intent, *arguments)
    assert in_order(pq.read_table(output).to_pylist()) == in_order(unbroken)


def catches_interrupts(pid: int) -> bool:
    """Whether a process has a handler for SIGINT."""
    (mask,) = re.findall(r"SigCgt:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(mask, 16) & 1 << (signal.SIGINT - 1))


@pytest.mark.parametrize("seconds", [0, 0.3, 0.6, 1, 1.5, 2, 2.5, 3])
def test_interrupted_while_it_starts_it_ends_in_silence(
    intent: Project, rows: Path, tmp_path: Path, seconds: float
) -> None:
    process = start(intent, "intent", "--input", str(rows), "--output", str(tmp_path / "out"), start_new_session=True)
    for caught in (True, False):  # first by Python, as long as it starts
        while catches_interrupts(process.pid) != caught:
            time.sleep(0.001)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), err
    assert "Traceback" not in err
    assert err.count("\n") <= 1


def test_a_damaged_unpacked_archive_is_unpacked_again(intent: Project, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\nchange company address\n")
    arguments = ["intent", "--input", str(tmp_path / "in.csv"), "--output"]
    run(intent, *arguments, str(tmp_path / "one.csv"))
    (folder,) = intent.unpacked.glob("intent-*")
    graph = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    whole = graph.read_bytes()
    graph.write_bytes(whole[:1000] + b"damaged" + whole[1007:])
    left = intent.unpacked / f".intent-0123{PARTIAL}"
    left.mkdir()
    run(intent, *arguments, str(tmp_path / "two.csv"))
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert graph.read_bytes() == whole
    assert [path for path in intent.unpacked.iterdir() if path.is_dir()] == [folder]


def test_a_process_that_dies_is_replaced(intent: Project, rows: Path, unbroken: list[dict[str, Any]]) -> None:
    output = intent.root / "replaced"
    process = start(intent, "intent", "--input", str(rows), "--output", str(output), "--keep", "id")
    while not list(output.glob("part-*")):
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [one for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
    os.kill(int(workers[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert in_order(pq.read_table(output).to_pylist()) == in_order(unbroken)


def test_a_full_disk_loses_nothing(intent: Project, rows: Path) -> None:
    output = intent.root / "full"
    arguments = ["intent", "--input", str(rows), "--output", str(output), "--format", "jsonl"]
    import resource

    limit = 100_000

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start(intent, *arguments, preexec_fn=small_files)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "File too large" in err
    assert f"{output}/.part-" in err
    assert err.count("\n") == 1
    assert not list(output.rglob("*.tmp"))
    run(intent, *arguments)
    lines = [line for path in sorted(output.glob("part-*")) for line in path.read_text().splitlines()]
    assert [json.loads(line)["id"] for line in lines] == list(range(ROWS))


def test_a_source_that_changed_is_refused(intent: Project, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("text\nchange company address\n")
    arguments = ["intent", "--input", str(path), "--output", str(tmp_path / "out.csv")]
    run(intent, *arguments)
    path.write_text("text\nchange company address\ninvoice\n")
    error = run(intent, *arguments, expect=1)
    assert "the input has changed since the answers in" in error
    assert "bytes: from 28 to 36" in error
    run(intent, *arguments, "--restart")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


def test_a_dry_run_writes_nothing(intent: Project, rows: Path, tmp_path: Path) -> None:
    arguments = ["--input", str(rows), "--output", str(tmp_path / "out"), "--instance", "inf2.xlarge", "--dry-run"]
    printed = run(intent, "intent", *arguments, "--keep", "id")
    assert f"{ROWS:,} rows, about " in printed
    assert "USD for a million on inf2.xlarge, 1 errors in the first 500" in printed
    assert not (tmp_path / "out").exists()
    document = json.loads(run(intent, "intent", *arguments, "--keep", "id", "--json"))
    assert document["rows"] == ROWS
    assert [row["id"] for row in document["answers"]] == [0, 1, 2]


def test_a_dry_run_shows_dates_as_json(intent: Project, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["invoice"], "day": [date(2024, 1, 1)]}), tmp_path / "in.parquet")
    arguments = ["--input", str(tmp_path / "in.parquet"), "--output", str(tmp_path / "out.csv"), "--dry-run", "--json"]
    (answer,) = json.loads(run(intent, "intent", *arguments))["answers"]
    assert answer["day"] == "2024-01-01"


def test_what_is_read_is_never_removed(intent: Project, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("text\ninvoice\n")
    for output in (source, tmp_path):
        arguments = ["--input", str(source), "--output", str(output), "--restart"]
        assert "cannot go into files that are read; give another --output" in run(
            intent, "intent", *arguments, expect=1
        )
    assert source.read_text() == "text\ninvoice\n"


def test_a_job_of_a_file(intent: Project, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"n": 1, "body": "invoice"}\n{"n": 2, "body": 5}\n')
    job = {"model": "intent", "input": {"url": "in.jsonl"}, "output": {"url": "out.jsonl"}, "columns": {"text": "body"}}
    parameters = {"top_k": 2, "function_to_apply": "none"}
    (tmp_path / "job.yaml").write_text(json.dumps({**job, "parameters": parameters, "keep": ["n"]}))
    for name in ("input", "output"):
        job[name] = {"url": str(tmp_path / job[name]["url"])}  # type: ignore[index]
    options = ["--job", str(tmp_path / "job.yaml"), "--input", str(tmp_path / "in.jsonl")]
    run(intent, *options, "--output", str(tmp_path / "out.jsonl"), "--set", "function_to_apply=softmax")
    one, two = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert [set(label) for label in one["labels"]] == [{"label", "score"}] * 2
    assert two["error"] == 'InvalidInstance: the field "body" must be a text, not a number'
    (tmp_path / "job.yaml").write_text(json.dumps({**job, "colums": {}}))
    assert "colums: unknown field; remove it or correct its name, perhaps to columns" in run(
        intent, "--job", str(tmp_path / "job.yaml"), expect=1
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "--input", "a.csv", "--output", "b.csv"], "no archive"),
        (["intent", *SAME], "the answers cannot go into the table that is read; name another table with --to"),
        (["intent", "--output", "b.csv"], "the input is missing; write marina score NAME --input URL --output URL"),
        (["intent", "--input", "rows.parquet", "--output", "b.csv", "--column", "text=body"], "no column 'body'"),
        (["intent", "--input", "rows.parquet", "--output", "b.csv", "--set", "top=1"], "unknown parameter"),
        (["intent", "--input", "rows.parquet", "--output", "b.csv", "--format", "xml"], "output.format: must be"),
        (["intent", "--input", "rows.parquet", "--output", "b.csv", "--core-groups", "99"], "core group of 99"),
    ],
)
@pytest.mark.usefixtures("rows")
def test_what_cannot_be_done_is_one_line(intent: Project, arguments: list[str], message: str) -> None:
    error = run(intent, *arguments, expect=1)
    assert message in error
    assert error.count("\n") == 1
    assert not (intent.root / "b.csv").exists()
