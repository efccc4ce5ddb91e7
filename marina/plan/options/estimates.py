"""What a model would cost on Inferentia and Trainium, from the figures of another model: an estimate, with its bounds.

The other model is that of `make verify-hardware` if its report is there, else AWS's bert-base.

Source: AWS Neuron documentation, about-neuron/benchmarks (inf1, inf2, trn1), bert-base at 128 tokens, SDK 2.20 to 2.28.
A call takes a constant and a time for each token, both in proportion to the weights of the encoder:

             batch 1                    full batch
inf1         7.9 ms                     8 texts: 1,095 a second on 4 cores, so 29.2 ms
inf2         1.0 ms                     8 texts: 2,674 a second on 2 cores, so 5.98 ms
trn1         1.0 ms (the core of inf2)  16 texts: 3,422 a second on 2 cores, so 9.35 ms

The same table has other models: distilbert on inf1 takes 17 % longer than this gives, distilbert on inf2 3 % longer,
and bert-large on inf2 24 % less. The times of TorchServe are as measured on this machine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from handlers.worker.values import Shape
from marina.errors import SpecError

BERT_BASE_WEIGHTS = 85.1e6  # of its encoder, without embeddings
BOUNDS = (0.7, 1.4)  # around times, as factors


class Accelerator(NamedTuple):
    """One core: the engine, and milliseconds of a call of bert-base for one row of 128 tokens, and for a full batch."""

    engine: str
    single_ms: float
    full_rows: int
    full_ms: float


DEVICES = {
    "inf1": Accelerator("neuron", 7.9, 8, 29.2),
    "inf2": Accelerator("neuronx", 1.0, 8, 5.98),
    "trn1": Accelerator("neuronx", 1.0, 16, 9.35),
}


class EncoderTimes(NamedTuple):
    """Milliseconds of a call on one core for an encoder of so many weights: a constant, and a time for each token."""

    weights: float
    constant: float
    token: float


def published_line(family: str) -> EncoderTimes:
    """By AWS's figures, for a family of instances: inf1, inf2 or trn1."""
    device = DEVICES[family]
    token = (device.full_ms - device.single_ms) / (128 * (device.full_rows - 1))
    return EncoderTimes(BERT_BASE_WEIGHTS, device.single_ms - 128 * token, token)


def reported_line(report: Path, family: str) -> EncoderTimes | None:
    """By the report.json of `make verify-hardware`, if it is of this family's engine; None if there is none.

    Raises:
        SpecError: the file cannot be read.
    """
    if not report.is_file():
        return None
    try:
        document = json.loads(report.read_text(encoding="utf-8"))
        if document["engine"] != DEVICES[family].engine:
            return None
        graphs = [trial["graphs"] for trial in document["trials"] if len(trial["graphs"]) > 1]
        times = sorted((Shape.parse(shape).tokens, float(time)) for shape, time in graphs[0].items())
        (min_tokens, min_ms), (max_tokens, max_ms) = times[0], times[-1]
        token = (max_ms - min_ms) / (max_tokens - min_tokens)
        return EncoderTimes(float(document["encoder_weights"]), max(0.0, min_ms - token * min_tokens), token)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        raise SpecError(f"{report} has no times of graphs", "make verify-hardware writes it again") from None


def estimated_times(line: EncoderTimes, weights: float, shapes: tuple[Shape, ...]) -> dict[Shape, float]:
    """Milliseconds of one call of each shape on one core.

    Args:
        line: the times of another model, which are scaled in proportion to the weights.
        weights: of the encoder, without its embeddings.
        shapes: of the graphs.
    """
    scale = weights / line.weights
    return {shape: scale * (line.constant + line.token * shape.tokens) for shape in shapes}
