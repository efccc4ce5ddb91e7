"""Matches a job with resumes: the nearest by meaning, of these the ones that have most of what the job demands, with
the reasons, and these in the order of a reranker, which reads the job and the resume together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa

import marina

NEAREST = 100  # resumes whose entities are looked at
RANKED = 30  # of these, the resumes that the reranker reads
MEANING, DEMANDS = 0.5, 0.5  # weights in a score
DEMANDED = ("SKILL", "DEGREE")
JOINING = re.compile(r"\.?\s*(\(|(in|of)\s+(the\s+)?)")  # between the pieces of a degree


class Understood(NamedTuple):
    """A text and what the models say of it: its embedding, and its skills and degrees as they are written."""

    text: str
    embedding: list[float]
    demands: dict[str, str]  # by their comparable form


class Match(NamedTuple):
    """A resume on a shortlist: its score with its reasons, which are what it has of the job's demands, and what not."""

    resume: int
    text: str
    name: str
    score: float
    similarity: float
    has: list[str]
    lacks: list[str]


class Models:
    """The models in this process.

    Args:
        embedding, entities, ranker: scorers of the archives resume-search, resume-ner and resume-rerank.
    """

    def __init__(self, embedding: marina.Scorer, entities: marina.Scorer, ranker: marina.Scorer) -> None:
        self._embedding, self._entities, self._ranker = embedding, entities, ranker

    def understand(self, text: str) -> Understood:
        """Read a text; ValueError if a model refuses it."""
        batch = pa.RecordBatch.from_pydict({"text": [text]})
        (embedded,), (tagged,) = (scorer(batch).to_pylist() for scorer in (self._embedding, self._entities))
        error = embedded["error"] or tagged["error"]
        if error:
            raise ValueError(error)
        return Understood(text, embedded["embedding"], demands_of(text, json.loads(tagged["entities"])))

    def rank(self, job: str, resumes: Sequence[str]) -> list[float]:
        """The reranker's score of each resume for a job; ValueError if it refuses a text."""
        batch = pa.RecordBatch.from_pydict({"query": [job] * len(resumes), "document": list(resumes)})
        answers = self._ranker(batch)
        errors = answers["error"].drop_null().to_pylist()
        if errors:
            raise ValueError(errors[0])
        return list(answers["score"].to_pylist())


def demands_of(text: str, entities: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The skills and degrees among a text's entities, as they are written, by their comparable form.

    A degree that the model found in pieces, as "B.Sc." and "Computer Science" in "B.Sc. in Computer Science", is one.
    """
    spans: list[tuple[int, int, str]] = []
    for entity in entities:
        start, end, group = entity["start"], entity["end"], entity["entity_group"]
        if group == "DEGREE" and spans and spans[-1][2] == group and JOINING.fullmatch(text, spans[-1][1], start):
            spans[-1] = spans[-1][0], end, group
        elif group in DEMANDED:
            spans.append((start, end, group))
    words = [text[start:end].strip(" .,;") for start, end, _ in spans]
    return {" ".join(word.lower().split()): word for word in words if word}


def shortlist(
    connection: psycopg.Connection[Any], models: Models, job: Understood, vectors: bool, most: int = 10
) -> list[Match]:
    """The best resumes for a job, in the order of the reranker.

    Args:
        connection: to the database, in which resumes have embeddings and entities.
        models: the models.
        job: the job.
        vectors: whether the server has pgvector.
        most: how many resumes.
    """
    return ranked(models, job, candidates(connection, job, vectors))[:most]


def ranked(models: Models, job: Understood, matches: Sequence[Match]) -> list[Match]:
    """The first `RANKED` of matches, scored by the reranker, best first."""
    best = matches[:RANKED]
    scores = models.rank(job.text, [match.text for match in best])
    scored = [match._replace(score=score) for match, score in zip(best, scores, strict=True)]
    return sorted(scored, key=lambda match: -match.score)


def candidates(connection: psycopg.Connection[Any], job: Understood, vectors: bool) -> list[Match]:
    """The nearest resumes with their reasons, scored by their meaning and by what they have of the job's demands."""
    nearest = _nearest(connection, job.embedding, vectors)
    query = "SELECT r.id, r.text, e.entities FROM resumes r JOIN resume_entities e USING (id) WHERE r.id = ANY(%s)"
    matches = []
    for resume, text, entities in connection.execute(query, [list(nearest)]):
        tagged = entities if isinstance(entities, list) else json.loads(entities or "[]")
        offered = demands_of(text, tagged)
        has = [word for key, word in job.demands.items() if key in offered]
        lacks = [word for key, word in job.demands.items() if key not in offered]
        share = len(has) / len(job.demands) if job.demands else 0.0
        names = (text[entity["start"] : entity["end"]] for entity in tagged if entity["entity_group"] == "NAME")
        name = next(names, text.partition(".")[0])
        score = MEANING * nearest[resume] + DEMANDS * share
        matches.append(Match(resume, text, name, score, nearest[resume], has, lacks))
    return sorted(matches, key=lambda match: -match.score)


def _nearest(connection: psycopg.Connection[Any], embedding: list[float], vectors: bool) -> dict[int, float]:
    """The cosine of the nearest resumes to an embedding of unit length, by resume."""
    if vectors:
        query = "SELECT id, 1 - (embedding <=> %s::vector) AS cosine FROM resume_vectors ORDER BY cosine DESC LIMIT %s"
        return dict(connection.execute(query, [str(embedding), NEAREST]).fetchall())
    rows = connection.execute("SELECT id, embedding FROM resume_vectors WHERE embedding IS NOT NULL").fetchall()
    cosines = np.array([row[1] for row in rows]) @ np.array(embedding)
    return {rows[place][0]: float(cosines[place]) for place in np.argsort(-cosines)[:NEAREST]}
