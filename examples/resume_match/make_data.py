"""Makes resumes and jobs: invented people, companies and places, in the style of examples/resume_ner."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import yaml

WORDS = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))
ROLES: list[dict[str, Any]] = WORDS["roles"]
OTHER_WORDS: dict[str, str] = WORDS["other_words"]
IN_OTHER_WORDS = 0.5  # of the skills of a resume that have other words
JOB_SKILLS = 5


class Resume(NamedTuple):
    """A resume and what it is made of."""

    text: str
    role: str
    skills: frozenset[str]
    degree: str


class Job(NamedTuple):
    """A job and what it demands."""

    title: str
    text: str
    role: str
    skills: tuple[str, ...]
    degree: str


def relevance(job: Job, resume: Resume) -> float:
    """The share of what a job demands, its skills and its degree, that a resume has, in whatever words."""
    has = len(resume.skills & set(job.skills)) + (resume.degree == job.degree)
    return has / (len(job.skills) + 1)


def make_resumes(count: int, seed: int = 0) -> list[Resume]:
    """Resumes of 60 to 130 words: mostly with the skills of one role, and some of others."""
    source = random.Random(seed)
    return [_resume(source) for _ in range(count)]


def _resume(source: random.Random) -> Resume:
    role, other = source.sample(ROLES, 2)
    name = f"{source.choice(WORDS['first_names'])} {source.choice(WORDS['last_names'])}"
    start = source.randint(2005, 2019)
    role_skills = source.sample(role["skills"], source.randint(2, min(7, len(role["skills"]))))
    skills = (
        role_skills + source.sample(WORDS["general_skills"], 2) + source.sample(other["skills"], source.randint(0, 2))
    )
    written = [OTHER_WORDS.get(skill, skill) if source.random() < IN_OTHER_WORDS else skill for skill in skills]
    first, second = source.sample(WORDS["companies"], 2)
    deeds = source.sample(role["deeds"], 2)
    degree = source.choice(role["degrees"])
    text = " ".join(
        [
            f"{name}. {role['title']} with {source.randint(2, 20)} years of experience.",
            f"{role['title']} at {first}, since {source.choice(['March', 'May', 'October'])} {start + 4}. {deeds[0]}.",
            f"Before that at {second}, {start} - {start + 4}. {deeds[1]}.",
            f"Skills: {', '.join(written)}.",
            f"{degree}, {source.choice(WORDS['schools'])}, {start - 4} - {start}.",
        ]
    )
    return Resume(text, role["title"], frozenset(skills), degree)


def make_jobs(seed: int = 1, of_each_role: int = 1) -> list[Job]:
    """Jobs with what they demand."""
    source = random.Random(seed)
    return [_job(role, source) for _ in range(of_each_role) for role in ROLES]


def _job(role: dict[str, Any], source: random.Random) -> Job:
    skills = source.sample(role["skills"], JOB_SKILLS)
    company = source.choice(WORDS["companies"])
    text = (
        f"{role['title']} at {company}. Your work will be like this: {role['deeds'][0].lower()}. "
        f"Skills: {', '.join(skills)}. {role['degrees'][0]} or the like."
    )
    return Job(f"{role['title']}, {company}", text, role["title"], tuple(skills), role["degrees"][0])
