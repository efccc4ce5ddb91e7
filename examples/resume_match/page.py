"""A small web page of the matcher: choose a job or write one, and see the shortlist with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from threading import Lock

import psycopg
from fastapi import FastAPI, Form
from fastapi.responses import HTMLResponse

from examples.resume_match.match import Match, Models, shortlist

STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
BAR = 120  # pixels of a score of 1


def make_page(url: str, models: Models, vectors: bool) -> FastAPI:
    """The page, for a database that holds resumes with embeddings and entities."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    turn = Lock()  # a scorer is for one thread

    def matched(title: str, text: str) -> str:
        with turn, psycopg.connect(url) as connection:
            jobs = connection.execute("SELECT id, title FROM jobs ORDER BY id").fetchall()
            try:
                job = models.understand(text)
            except ValueError as error:
                return _page(jobs, title, text, f"<p>{escape(str(error))}</p>")
            return _page(jobs, title, text, _table(shortlist(connection, models, job, vectors)))

    @app.get("/", response_class=HTMLResponse)
    def first() -> str:
        return chosen(1)

    @app.get("/jobs/{number}", response_class=HTMLResponse)
    def chosen(number: int) -> str:
        with psycopg.connect(url) as connection:
            job = connection.execute("SELECT title, text FROM jobs WHERE id = %s", [number]).fetchone()
        return matched(*job) if job else _page([], "There is no such job", "", "")

    @app.post("/match", response_class=HTMLResponse)
    def match(text: str = Form()) -> str:
        return matched("Your job", text)

    return app


def _page(jobs: Sequence[tuple[int, str]], title: str, text: str, result: str) -> str:
    links = []
    for number, name in jobs:
        mark = ' class="here"' if name == title else ""
        links.append(f'<a href="/jobs/{number}"{mark}>{escape(name)}</a>')
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><main><nav>{''.join(links)}</nav><h1>{escape(title)}</h1>"
        f'<form method="post" action="/match"><textarea name="text" aria-label="job">{escape(text)}</textarea>'
        f"<button>Find resumes</button></form>{result}</main></html>"
    )


def _table(matches: Sequence[Match]) -> str:
    rows = []
    for place, match in enumerate(matches, start=1):
        has = "".join(f'<span class="has">{escape(word)}</span>' for word in match.has)
        lacks = "".join(f'<span class="lacks">{escape(word)}</span>' for word in match.lacks)
        bar = f'<span class="bar" style="width: {match.score * BAR:.0f}px"></span>{match.score:.2f}'
        rows.append(
            f"<tr><td>{place}<td>{escape(match.name)}<br><small>resume {match.resume}</small>"
            f"<td>{bar}<td>{match.similarity:.2f}<td>{has}{lacks}</tr>"
        )
    heads = "<tr><th><th>resume<th>score<th>meaning<th>demands</tr>"
    return f"<table>{heads}{''.join(rows)}</table>"
