"""Places to run and traffic, made up."""

from __future__ import annotations

from typing import Any

import numpy as np

from handlers.worker.values import Shape
from marina.plan.options.candidates import MachineType, Variant
from marina.plan.simulator.system import WorkerModel
from marina.plan.workload import Traffic


def variant(scale: float = 1.0, cores: tuple[int, ...] = (1, 2), bounds: Any = None) -> Variant:
    """A model with four graphs: 0.05 ms a token on one core, and a constant."""
    shapes = [Shape(1, 16), Shape(8, 16), Shape(1, 64), Shape(8, 64)]

    def costs(count: int) -> WorkerModel:
        times = {shape: scale * (1 + 0.05 * shape.batch_size * shape.sequence_length / count**0.8) for shape in shapes}
        return WorkerModel(times, times, batch=0.5, request=0.05, outside=0.3, front=0.2)

    named = tuple(map(str, shapes))
    return Variant("openvino", "int8", named, {count: costs(count) for count in cores}, 300.0, bounds)


def place(
    name: str = "here", per_hour: float | None = 1.0, cores: int = 2, variants: Any = None, host: str = "torchserve"
) -> MachineType:
    """A machine."""
    return MachineType(
        name=name,
        host=host,
        cores=cores,
        memory_gib=16,
        per_hour=per_hour,
        contention=0.05,
        stolen=0.7,
        entering=0.05,
        timer=0.06,
        exclusive=False,
        variants=variants or ((variant(),),),
    )


def traffic(rate: float, instances: int = 1, seed: int = 0) -> Traffic:
    """Texts of 3 to 64 tokens."""
    lengths = np.clip(np.random.default_rng(seed).lognormal(2.8, 0.7, 500), 3, 64).astype(np.int64)
    return Traffic(rate, instances, lengths)
