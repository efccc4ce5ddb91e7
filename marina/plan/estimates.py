"""What a model would cost on Inferentia and Trainium, from AWS's published figures: an estimate, with its bounds.

Source: AWS Neuron documentation, about-neuron/benchmarks (inf1, inf2, trn1), bert-base at 128 tokens, SDK 2.20 to 2.28.
A call takes a constant and a time for each token, both in proportion to the weights of the encoder:

             batch 1                    full batch
inf1         7.9 ms                     8 texts: 1,095 a second on 4 cores, so 29.2 ms
inf2         1.0 ms                     8 texts: 2,674 a second on 2 cores, so 5.98 ms
trn1         1.0 ms (the core of inf2)  16 texts: 3,422 a second on 2 cores, so 9.35 ms

The same table has other models: distilbert on inf1 takes 17 % longer than this gives, distilbert on inf2 3 % longer,
and bert-large on inf2 24 % less. What TorchServe takes is as measured on this machine.
"""

from __future__ import annotations

from typing import NamedTuple

from handlers.worker.values import Shape

BERT_BASE_WEIGHTS = 85.1e6  # of its encoder, without embeddings
BOUNDS = (0.7, 1.4)  # around times, as factors


class Device(NamedTuple):
    """One core: the engine, and milliseconds of a call of bert-base for 128 tokens, and for so many times 128."""

    engine: str
    one: float
    rows: int
    full: float


DEVICES = {
    "inf1": Device("neuron", 7.9, 8, 29.2),
    "inf2": Device("neuronx", 1.0, 8, 5.98),
    "trn1": Device("neuronx", 1.0, 16, 9.35),
}


def estimated_times(family: str, weights: float, shapes: tuple[Shape, ...]) -> dict[Shape, float]:
    """Milliseconds of one call of each shape on one core.

    Args:
        family: of the instance: inf1, inf2 or trn1.
        weights: of the encoder, without its embeddings.
        shapes: of the graphs.
    """
    device = DEVICES[family]
    token = (device.full - device.one) / (128 * (device.rows - 1))
    start = device.one - 128 * token
    scale = weights / BERT_BASE_WEIGHTS
    return {shape: scale * (start + token * shape.batch_size * shape.sequence_length) for shape in shapes}
