"""Trains the demonstration model `resume-rerank`: how much of what a job demands a resume has, in whatever words.

Fine-tunes a cross-encoder on made jobs and resumes (`examples/resume_match/make_data.py`), other ones than those of the
demonstration. A second head, which is not kept, learns of each demand in the text of a job whether the resume meets it:
the model learns to compare from that, many times faster than from the answers alone.

Prints the quality on jobs and resumes that were not trained on, and writes an ordinary Hugging Face folder. Run it from
the repository root:

    python -m examples.resume_rerank.train
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForSequenceClassification

from examples.resume_match.make_data import Job, Resume, make_jobs, make_resumes, relevance
from examples.resume_match.quality import ndcg
from examples.training import IGNORED, SEED, WEIGHTS, begin, fit, save

JOBS_A_ROLE, RESUMES, PAIRS = 40, 2000, 1600
SAME_ROLE = 0.7  # of the pairs
DEMANDS_WEIGHT = 2.0  # of the second head's loss
TEST_SEED, TEST_RESUMES = 5, 120
EXAMPLES = 400  # pairs to judge lower precisions on


class Pair(NamedTuple):
    """A job and a resume."""

    job: Job
    resume: Resume


class Ranker:
    """The cross-encoder, and a second head on the vectors of its tokens."""

    def __init__(self) -> None:
        self.tokenizer = begin()
        self.model = AutoModelForSequenceClassification.from_pretrained(WEIGHTS, trust_remote_code=False, num_labels=1)
        self.model.bert.embeddings.requires_grad_(False)
        # no dropout: no pair is seen twice, so there is nothing to learn by heart
        self.model.eval()
        self.demands = torch.nn.Linear(self.model.config.hidden_size, 1)

    def encoded(self, pairs: list[Pair]) -> Any:
        """The tokens of pairs."""
        texts, others = [pair.job.text for pair in pairs], [pair.resume.text for pair in pairs]
        return self.tokenizer(texts, others, padding=True, truncation=True, return_tensors="pt")

    def loss(self, pairs: list[Pair]) -> torch.Tensor:
        """The loss of both heads together."""
        encoded = self.encoded(pairs)
        outputs = self.model(**encoded, output_hidden_states=True)
        relevances = torch.tensor([relevance(*pair) for pair in pairs])
        targets = torch.tensor([token_targets(*each) for each in zip(encoded.encodings, pairs, strict=True)])
        known = targets != IGNORED
        met = self.demands(outputs.hidden_states[-1][known])[:, 0]
        demands_loss = binary_cross_entropy_with_logits(met, targets[known].float())
        return binary_cross_entropy_with_logits(outputs.logits[:, 0], relevances) + DEMANDS_WEIGHT * demands_loss

    def scores(self, pairs: list[Pair]) -> npt.NDArray[np.float32]:
        """The score of each pair."""
        with torch.inference_mode():
            logits = [
                self.model(**self.encoded(pairs[start : start + 40])).logits for start in range(0, len(pairs), 40)
            ]
        return torch.cat(logits)[:, 0].numpy()


def token_targets(encoding: Any, pair: Pair) -> list[int]:
    """Of each token of a demand in a job, whether the resume meets it; IGNORED of other tokens."""
    job, resume = pair
    spans = []
    for demand in (*job.skills, job.degree):
        start = job.text.rindex(demand)
        spans.append((start, start + len(demand), int(demand in resume.skills or demand == resume.degree)))
    targets = []
    for (start, end), sequence in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        met = [label for first, last, label in spans if sequence == 0 and start < last and end > first]
        targets.append(met[0] if met else IGNORED)
    return targets


def training_pairs() -> list[Pair]:
    """Jobs and resumes, most of them of the same role."""
    chance = random.Random(SEED)
    jobs, resumes = make_jobs(SEED, JOBS_A_ROLE), make_resumes(RESUMES, SEED)
    by_role = defaultdict(list)
    for resume in resumes:
        by_role[resume.role].append(resume)
    pairs = []
    for _ in range(PAIRS):
        job = chance.choice(jobs)
        pairs.append(Pair(job, chance.choice(by_role[job.role] if chance.random() < SAME_ROLE else resumes)))
    return pairs


def main() -> None:
    """Train, test and save."""
    ranker, pairs = Ranker(), training_pairs()
    fit(
        "resume-rerank",
        ranker.model.bert.encoder.parameters(),
        [
            *ranker.model.bert.pooler.parameters(),
            *ranker.model.classifier.parameters(),
            *ranker.demands.parameters(),
        ],
        [len(pair.job.text) + len(pair.resume.text) for pair in pairs],
        lambda numbers: ranker.loss([pairs[number] for number in numbers]),
        epochs=1,
        learning_rate=2e-4,
    )

    jobs, resumes = make_jobs(TEST_SEED), make_resumes(TEST_RESUMES, TEST_SEED)
    gains = []
    for job in jobs:
        scores = ranker.scores([Pair(job, resume) for resume in resumes])
        gains.append(ndcg([relevance(job, resume) for resume in resumes], np.argsort(-scores).tolist()))
    print(f"held-out jobs: nDCG@10 {np.mean(gains):.3f} of {len(jobs)} jobs with {len(resumes)} resumes each")
    held_out = [{"query": job.text, "document": resume.text} for resume in resumes for job in jobs]
    save(ranker.model, ranker.tokenizer, "resume-rerank", random.Random(SEED).sample(held_out, EXAMPLES))


if __name__ == "__main__":
    main()
