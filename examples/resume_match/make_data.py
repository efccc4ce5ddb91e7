"""Makes resumes and jobs: invented people, companies and places, in the style of examples/resume_ner."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

WORDS = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))
ROLES: list[dict[str, Any]] = WORDS["roles"]


def make_resumes(count: int, seed: int = 0) -> list[str]:
    """Resumes of 60 to 130 words: mostly with the skills of one role, and some of others."""
    source = random.Random(seed)
    return [_resume(source) for _ in range(count)]


def _resume(source: random.Random) -> str:
    role, other = source.sample(ROLES, 2)
    name = f"{source.choice(WORDS['first_names'])} {source.choice(WORDS['last_names'])}"
    start = source.randint(2005, 2019)
    role_skills = source.sample(role["skills"], source.randint(2, min(7, len(role["skills"]))))
    skills = (
        role_skills + source.sample(WORDS["general_skills"], 2) + source.sample(other["skills"], source.randint(0, 2))
    )
    first, second = source.sample(WORDS["companies"], 2)
    deeds = source.sample(role["deeds"], 2)
    return " ".join(
        [
            f"{name}. {role['title']} with {source.randint(2, 20)} years of experience.",
            f"{role['title']} at {first}, since {source.choice(['March', 'May', 'October'])} {start + 4}. {deeds[0]}.",
            f"Before that at {second}, {start} - {start + 4}. {deeds[1]}.",
            f"Skills: {', '.join(skills)}.",
            f"{source.choice(role['degrees'])}, {source.choice(WORDS['schools'])}, {start - 4} - {start}.",
        ]
    )


def make_jobs() -> list[tuple[str, str]]:
    """A job for each role: its title, and its description with what it demands."""
    source = random.Random(1)
    jobs = []
    for role in ROLES:
        skills = source.sample(role["skills"], 5)
        company = source.choice(WORDS["companies"])
        text = (
            f"{role['title']} at {company}. Your work will be like this: {role['deeds'][0].lower()}. "
            f"Skills: {', '.join(skills)}. {role['degrees'][0]} or the like."
        )
        jobs.append((f"{role['title']}, {company}", text))
    return jobs
