"""`make demo-match`: scores 1,000 resumes into PostgreSQL, and matches jobs with them."""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import psycopg
from rich.console import Console
from rich.table import Table

import marina
from examples.resume_match.before import Before
from examples.resume_match.database import database, fill
from examples.resume_match.make_data import make_jobs, make_resumes, relevance
from examples.resume_match.match import RANKED, Match, Models, candidates, ranked, shortlist
from examples.resume_match.quality import TOP, ndcg
from marina.compiler.hugging_face import find_source
from marina.project import Project, find_project
from marina.spec import read_spec

EMBEDDING, ENTITIES, RANKER = "resume-search", "resume-ner", "resume-rerank"
SAMPLE = 16  # resumes on which the way before is measured
REPEATS = 20
BUSY = 0.2  # share of the cores
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.resume_match", description=__doc__)
    parser.add_argument("--database", metavar="URL", help="a PostgreSQL; default: an embedded one in build/demo-match")
    parser.add_argument("--resumes", type=int, default=1000)
    parser.add_argument("--page", type=int, metavar="PORT", help="then serve the web page on this port")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that PostgreSQL ends too
    project, busy = find_project(), psutil.cpu_percent(interval=1) / 100
    if busy > BUSY:
        console.print(f"the machine is busy: {busy:.0%} of its cores, so the times will vary")
    with database(project.root / "build" / "demo-match", options.database) as url:
        vectors = fill(url, options.resumes)
        console.print(f"{options.resumes:,} resumes in PostgreSQL, {'with' if vectors else 'without'} pgvector")
        bulk = sum(_score(name, url, "resumes", f"resume_{what}") for name, what in _models())
        archives = [project.model_store / f"{name}.mar" for name in (EMBEDDING, ENTITIES, RANKER)]
        models = Models(*map(marina.Scorer, archives))
        with psycopg.connect(url, autocommit=True) as connection:
            jobs = connection.execute("SELECT title, text FROM jobs ORDER BY id").fetchall()
            for title, text in jobs[:2]:
                _print(title, shortlist(connection, models, models.understand(text), vectors, most=5))
            _print_quality(connection, models, vectors, options.resumes)
            _print_times(project, connection, models, vectors, bulk, options.resumes)
        if options.page:
            import uvicorn

            from examples.resume_match.page import make_page

            console.print(f"the page is at http://127.0.0.1:{options.page} until you press Ctrl-C")
            uvicorn.run(make_page(url, models, vectors), host="127.0.0.1", port=options.page, log_level="warning")


def _models() -> tuple[tuple[str, str], ...]:
    return (EMBEDDING, "vectors"), (ENTITIES, "entities")


def _score(name: str, url: str, table: str, to: str) -> float:
    """Run `marina score`; returns the seconds that it took in all."""
    started = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "marina",
        "score",
        name,
        "--input",
        url,
        "--table",
        table,
        "--output",
        url,
        "--to",
        to,
    ]
    subprocess.run([*command, "--keep", "id"], check=True)
    return time.perf_counter() - started


def _print(title: str, matches: list[Match]) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("", "resume", "score", "meaning", "has", "lacks"):
        table.add_column(column)
    for place, match in enumerate(matches, start=1):
        cells = (str(place), match.name, f"{match.score:.2f}", f"{match.similarity:.2f}")
        table.add_row(*cells, ", ".join(match.has), ", ".join(match.lacks))
    console.print(table)


def _print_quality(connection: psycopg.Connection, models: Models, vectors: bool, count: int) -> None:
    """How well each stage orders the first resumes, by what jobs and resumes were made of."""
    made, jobs = make_resumes(count), make_jobs()
    gains: dict[str, list[float]] = {"by meaning": [], "by meaning and demands": [], f"the best {RANKED} reranked": []}
    seconds = 0.0
    for job in jobs:
        understood, relevances = models.understand(job.text), [relevance(job, resume) for resume in made]
        started = time.perf_counter()
        by_demands = candidates(connection, understood, vectors)
        reranked = ranked(models, understood, by_demands)
        seconds += time.perf_counter() - started
        by_meaning = sorted(by_demands, key=lambda match: -match.similarity)
        for values, matches in zip(gains.values(), (by_meaning, by_demands, reranked), strict=True):
            values.append(ndcg(relevances, [match.resume - 1 for match in matches]))
    table = Table(title=f"Order of the first {TOP} (nDCG@{TOP}; 1 is the best), {len(jobs)} jobs", title_justify="left")
    table.add_column("")
    table.add_column("quality", justify="right")
    for name, values in gains.items():
        table.add_row(name, f"{statistics.mean(values):.3f}")
    console.print(table)
    console.print(f"the search with its reasons and the reranker take {_time(seconds / len(jobs))} a job")


def _print_times(
    project: Project, connection: psycopg.Connection, models: Models, vectors: bool, bulk: float, resumes: int
) -> None:
    """The time for all resumes, for a new resume, and for a new job, before and after."""
    sources = [find_source(read_spec(project.models / f"{name}.yaml").source, project.root) for name, _ in _models()]
    old, texts = Before((sources[0], sources[1])), [resume.text for resume in make_resumes(SAMPLE, seed=9)]
    for warm_up in (old.understand, models.understand):
        warm_up(texts[0])
    # in turns, so that what else the machine does slows both
    turns = [(_seconds(old.understand, text), _seconds(models.understand, text)) for text in texts]
    before, resume = (statistics.median(seconds) for seconds in zip(*turns, strict=True))
    job = connection.execute("SELECT text FROM jobs").fetchone()
    assert job
    understood, started = models.understand(job[0]), time.perf_counter()
    for _ in range(REPEATS):
        candidates(connection, understood, vectors)
    search = (time.perf_counter() - started) / REPEATS
    table = Table(title="Time, before (eager models one by one, padded to 512 tokens) and after", title_justify="left")
    for column in ("", "before", "after", "times faster"):
        table.add_column(column, justify="left" if not column else "right")
    for what, seconds_before, seconds_after in (
        (f"{resumes:,} resumes, with loading the models", resumes * before, bulk),
        ("a new resume", before, resume),
        (f"a new job against {resumes:,} resumes that are known", before + search, resume + search),
        (f"a new job with {resumes:,} new resumes", before * (resumes + 1) + search, bulk + resume + search),
    ):
        faster = f"{seconds_before / seconds_after:.1f}"
        table.add_row(what, _time(seconds_before), _time(seconds_after), faster)
    console.print(table)
    console.print(f"before: {SAMPLE} resumes were measured, and more computed from them")
    console.print(f"a job's search and reasons take {_time(search)}")


def _seconds(call: Callable[[str], object], text: str) -> float:
    started = time.perf_counter()
    call(text)
    return time.perf_counter() - started


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    main()
