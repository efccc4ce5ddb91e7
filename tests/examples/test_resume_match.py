"""What a job demands, and the data of the matcher."""

from __future__ import annotations

from examples.resume_match.make_data import make_jobs, make_resumes
from examples.resume_match.match import demands_of


def test_demands_are_compared_without_case_and_spaces() -> None:
    text = "Maria: Spring  Boot, spring boot. MBA."
    found = (
        ("NAME", "Maria"),
        ("SKILL", "Spring  Boot,"),
        ("SKILL", "spring boot"),
        ("DEGREE", "MBA."),
        ("SKILL", "."),
    )
    entities = [
        {"entity_group": group, "start": text.index(word), "end": text.index(word) + len(word)} for group, word in found
    ]
    assert demands_of(text, entities) == {"spring boot": "spring boot", "mba": "MBA"}


def test_resumes_and_jobs_are_reproducible() -> None:
    resumes = make_resumes(200)
    assert resumes == make_resumes(200)
    assert len(set(resumes)) == 200
    assert all(40 <= len(text.split()) <= 130 for text in resumes)
    assert make_jobs() == make_jobs()
