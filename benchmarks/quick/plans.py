"""Plans the calls for 2,000 batches with the code of a tree, and prints their number, their milliseconds, and the time.

It imports what every release has, and nothing else of the tree that it belongs to.
"""

from __future__ import annotations

import json
import random
import time

from handlers.worker.rows.plan import Planner
from handlers.worker.values import Shape

BATCHES, SIZES = 2000, (1, 2, 4, 8, 16, 32, 64)
SHAPES = ((1, 16), (1, 32), (1, 64), (1, 128), (4, 16), (4, 32), (8, 64), (16, 16), (16, 32))
PACKED = ((1, 64), (2, 64), (1, 128), (4, 128))


def milliseconds(shape: Shape) -> float:
    """A call's time as on a CPU: a part for the call, one for each token, and one for its attention."""
    rows, length = shape.batch_size, shape.sequence_length
    return 0.4 + 0.05 * rows * length + 0.0001 * rows * length**2


def main() -> None:
    """Print {"calls": ..., "ms": ..., "seconds": ...} for shapes with and without packed ones."""
    rng = random.Random(0)
    batches = [
        [min(max(round(17 * 2.718 ** rng.gauss(0, 0.72)), 4), 128) for _ in range(rng.choice(SIZES))]
        for _ in range(BATCHES)
    ]
    shapes = [Shape(*dims) for dims in SHAPES]
    packed = [Shape(*dims, packed=True) for dims in PACKED]
    total = {"calls": 0.0, "ms": 0.0, "seconds": 0.0}
    for chosen in (shapes, [*shapes, *packed]):
        times = {shape: milliseconds(shape) for shape in chosen}
        planner = Planner(times)
        start = time.perf_counter()
        calls = [call for batch in batches for call in planner.plan(batch)]
        total["seconds"] += time.perf_counter() - start
        total["calls"] += len(calls)
        total["ms"] += sum(times[call.shape] for call in calls)
    print(json.dumps(total))


if __name__ == "__main__":
    main()
