"""What a job demands, and the data of the matcher."""

from __future__ import annotations

from examples.resume_match.make_data import make_jobs, make_resumes
from examples.resume_match.match import demands_of


def test_demands_are_compared_without_case_and_spaces() -> None:
    entities = [
        {"entity_group": "SKILL", "word": "Spring  Boot,"},
        {"entity_group": "SKILL", "word": "spring boot"},
        {"entity_group": "NAME", "word": "Maria"},
        {"entity_group": "DEGREE", "word": "MBA."},
        {"entity_group": "SKILL", "word": "."},
    ]
    assert demands_of(entities) == {"spring boot": "spring boot", "mba": "MBA"}


def test_resumes_and_jobs_are_reproducible() -> None:
    resumes = make_resumes(200)
    assert resumes == make_resumes(200)
    assert len(set(resumes)) == 200
    assert all(40 <= len(text.split()) <= 130 for text in resumes)
    assert make_jobs() == make_jobs()
