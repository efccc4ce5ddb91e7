"""`marina score` with MongoDB over its protocol: killed, beside others, and with a connection that is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pymongo
import pytest

from marina.project import Project
from tests.conftest import ROOT
from tests.marina.score.archives import project_with, texts_of
from tests.marina.score.mongodb import Link, mongodb

pytestmark = pytest.mark.long
ROWS = 600  # several batches of a cursor, and several shards
KILLS = 4
Answers = dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def intent(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the archive of a classifier."""
    return project_with(tmp_path_factory.mktemp("mongodb"), "intent")


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a database with a collection of rows, two of which cannot be answered."""
    texts: list[Any] = list(texts_of(ROWS))
    texts[17], texts[421] = None, 5
    with mongodb() as url, pymongo.MongoClient[Any](url) as client:
        base = client.get_default_database()
        for name in base.list_collection_names():
            base.drop_collection(name)
        for start in range(0, ROWS, 100):
            base.rows.insert_many([{"_id": n, "text": texts[n], "n": n / 2} for n in range(start, start + 100)])
        yield url


def command(url: str, to: str) -> list[str]:
    return [*("intent", "--input", url, "--table", "rows"), *("--output", url, "--to", to, "--keep", "_id,n")]


def start(project: Project, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "marina", "score", *arguments],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(project: Project, arguments: list[str], expect: int = 0) -> str:
    """Run `marina score`; returns what it printed."""
    out, err = (process := start(project, arguments)).communicate(timeout=300)
    assert process.returncode == expect, err
    return err if expect else out


def answers_in(url: str, name: str) -> Answers:
    """The answers by id, without what differs in the last digits between plans."""
    with pymongo.MongoClient[Any](url) as client:
        found = list(client.get_default_database()[name].find({}))
    assert len(found) == len({row["_id"] for row in found})
    return {row.pop("_id"): {**row, "score": row["score"] and round(row["score"], 3)} for row in found}


@pytest.fixture(scope="module")
def unbroken(intent: Project, database: str) -> Answers:
    """The answers of a run that nothing interrupts."""
    assert f"{ROWS} rows, {ROWS - 2} answered, 2 errors" in run(intent, command(database, "unbroken"))
    found = answers_in(database, "unbroken")
    assert set(found) == set(range(ROWS))
    assert {number for number, row in found.items() if row["error"]} == {17, 421}
    assert [found[number]["n"] for number in (2, 3)] == [1.0, 1.5]
    return found


def test_killed_at_any_moment_every_document_is_answered_once(
    intent: Project, database: str, unbroken: Answers
) -> None:
    chosen = random.Random(1)
    for _ in range(KILLS):
        process = start(intent, command(database, "killed"))
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=chosen.uniform(3, 6))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    run(intent, command(database, "killed"))
    assert answers_in(database, "killed") == unbroken
    assert "was complete already" in run(intent, command(database, "killed"))


def test_two_at_once_share_a_collection(intent: Project, database: str, unbroken: Answers) -> None:
    both = [start(intent, command(database, "shared")) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert answers_in(database, "shared") == unbroken


def test_a_connection_that_is_lost_and_comes_back(intent: Project, database: str, unbroken: Answers) -> None:
    link = Link(database)
    process = start(intent, command(link.url, "lost"))
    while not answers_in(database, "lost"):
        assert process.poll() is None
        time.sleep(0.02)
    link.cut()
    time.sleep(4)
    link.mend()
    _, err = process.communicate(timeout=300)
    link.cut()
    assert process.returncode == 0, err
    assert answers_in(database, "lost") == unbroken


def test_a_server_that_is_not_there_is_one_line(intent: Project, database: str) -> None:
    link = Link(database)
    link.cut()
    error = run(intent, command(link.url, "nowhere"), expect=1)
    assert "cannot be reached" in error
    assert error.count("\n") == 1
