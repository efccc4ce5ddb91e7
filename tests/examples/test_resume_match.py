"""What a job demands, and the data of the matcher."""

from __future__ import annotations

from statistics import mean

import pytest

from examples.resume_match.make_data import Resume, make_jobs, make_resumes, relevance
from examples.resume_match.match import demands_of
from examples.resume_match.quality import ndcg


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
    assert len({resume.text for resume in resumes}) == 200
    assert all(40 <= len(resume.text.split()) <= 140 for resume in resumes)
    assert make_jobs() == make_jobs()


def test_relevance_is_the_share_of_demands_in_whatever_words() -> None:
    job = make_jobs()[0]
    meeting = Resume("k8s", job.role, frozenset(job.skills), job.degree)
    assert relevance(job, meeting) == 1
    assert relevance(job, meeting._replace(skills=frozenset(job.skills[:2]), degree="")) == 2 / 6
    others = [resume for resume in make_resumes(300) if resume.role != job.role]
    same = [resume for resume in make_resumes(300) if resume.role == job.role]
    assert mean(relevance(job, resume) for resume in same) > 3 * mean(relevance(job, resume) for resume in others)


def test_the_best_order_has_the_gain_1() -> None:
    relevances = [0.2, 1.0, 0.0, 0.6]
    assert ndcg(relevances, [1, 3, 0, 2]) == 1
    assert ndcg(relevances, [1, 3]) == pytest.approx((1 + 0.6 / 1.585) / (1 + 0.6 / 1.585 + 0.2 / 2), rel=1e-3)
    assert ndcg(relevances, [2, 0, 3, 1]) < ndcg(relevances, [3, 1, 0, 2]) < 1
