"""A model that transformers runs eagerly, without a graph and without a server, in its own process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marina.bench.load.histogram import new_histogram, record
from marina.bench.load.measurement import Measurement
from marina.bench.server.spawned import spawned_process

TASK_MODELS = {"sentence-embedding": "AutoModel", "token-classification": "AutoModelForTokenClassification"}
MAX_TOKENS = 512


class EagerModel:
    """The process with the model."""

    def __init__(self, process: ProcessPoolExecutor) -> None:
        self._process = process

    def run(self, texts: list[str], padded: int | None, instances: int, seconds: float) -> Measurement:
        """Tokenize and run texts repeatedly, in float32 on all cores.

        Args:
            texts: texts, used in turn.
            padded: number of tokens to pad every text to; None pads a mini-batch to its longest text.
            instances: texts per mini-batch; the measured latency is that of one mini-batch.
            seconds: how long to run.
        """
        return self._process.submit(_run, texts, padded, instances, seconds).result()


@contextmanager
def eager_model(source: Path, task: str) -> Iterator[EagerModel]:
    """Load the model in a folder, for one of the tasks in TASK_MODELS."""
    with spawned_process() as process:
        process.submit(_load, source, TASK_MODELS[task]).result()
        yield EagerModel(process)


_loaded: list[Any] = []  # of this process: tokenizer and model


def _load(source: Path, kind: str) -> None:
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = getattr(transformers, kind).from_pretrained(source, trust_remote_code=False).eval()
    _loaded[:] = [transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False), model]


def _run(texts: list[str], padded: int | None, instances: int, seconds: float) -> Measurement:
    import torch

    tokenizer, model = _loaded
    batches = [texts[start : start + instances] for start in range(0, len(texts), instances)]
    padding = {"padding": "max_length" if padded else "longest", "max_length": padded or MAX_TOKENS}
    latencies, answered = new_histogram(), 0
    with torch.inference_mode():
        model(**tokenizer(batches[0], truncation=True, return_tensors="pt", **padding))
        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            batch = batches[latencies.total_count % len(batches)]
            start = time.perf_counter()
            model(**tokenizer(batch, truncation=True, return_tensors="pt", **padding))
            record(latencies, time.perf_counter() - start)
            answered += len(batch)
        seconds_spent = time.perf_counter() - begin
    return Measurement.of_calls(seconds_spent, latencies.total_count, answered, answered / seconds_spent, latencies)
