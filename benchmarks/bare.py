"""Runs the graphs of an artifact in a loop, without a server: the most that serving could reach."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

PAUSE_S = 0.0015
_held: dict[Path, Any] = {}


class Bare(NamedTuple):
    """What the graphs alone do with the rows of some texts.

    rows_per_s is seen with all rows at hand, sorted by length and laid into calls by the plan of least
    time, one graph after the other, with inputs that are in place already.
    alone_ms is the median time of one text in the graph that is fastest for it, text after text;
    paced_ms the same with pauses, in which caches cool and cores fall asleep, as between requests.
    megabytes is by how much the process grew when it loaded the graphs.
    """

    rows_per_s: float
    alone_ms: float
    paced_ms: float
    megabytes: float


def measure(artifact: Path, texts: list[str], cores: int, seconds: float) -> Bare:
    """Measure for some seconds; the graphs stay loaded for the next time."""
    if artifact not in _held:
        _held[artifact] = _load(artifact, texts, cores)
    described, graphs, rows, planner, megabytes = _held[artifact]
    from handlers.worker.calls import write_rows

    plan = sorted(planner.plan([len(row.ids) for row in rows]), key=lambda call: call.shape)
    computed, spent, last = 0, 0.0, None
    end = time.perf_counter() + seconds / 2
    while not computed or time.perf_counter() < end:
        for call in plan:
            if call.shape != last:
                write_rows(graphs[call.shape], [rows[index] for index in call.rows], described)
                last = call.shape
            start = time.perf_counter()
            graphs[call.shape].run(len(call.rows))
            spent += time.perf_counter() - start
            computed += len(call.rows)
    alone = _alone(artifact, seconds / 4, pause_s=0.0)
    paced = _alone(artifact, seconds / 4, pause_s=PAUSE_S)
    return Bare(computed / spent, alone, paced, megabytes)


def _alone(artifact: Path, seconds: float, pause_s: float) -> float:
    """Median milliseconds of one text after the other."""
    described, graphs, rows, planner, _ = _held[artifact]
    from handlers.worker.calls import write_rows

    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        row = rows[len(times) % len(rows)]
        (call,) = planner.plan([len(row.ids)])
        time.sleep(pause_s)
        write_rows(graphs[call.shape], [row], described)
        start = time.perf_counter()
        graphs[call.shape].run(1)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1000


def _load(artifact: Path, texts: list[str], cores: int) -> Any:
    import psutil

    from handlers.worker.artifact import TOKENIZER_FILE, read_artifact
    from handlers.worker.calls import load_graphs
    from handlers.worker.engines import Setup, open_engine
    from handlers.worker.instances import Instance
    from handlers.worker.plan import Planner
    from handlers.worker.timing import time_graphs
    from handlers.worker.tokenizing import RowTokenizer, Tokenized, Window

    described = read_artifact(artifact)
    tokenizer = RowTokenizer(artifact / TOKENIZER_FILE, described.truncation_side)
    longest = max(shape.sequence_length for shape in described.shapes)
    found = tokenizer.encode([Instance(text) for text in texts], [Window(longest, "truncate")] * len(texts))
    rows = [tokenized.rows[0] for tokenized in found if isinstance(tokenized, Tokenized)]
    before = psutil.Process().memory_info().rss
    (graphs,) = load_graphs(open_engine(described.engine, Setup(cores, cores, described.precision)), described)
    planner = Planner(time_graphs([graphs], described, 1.5))
    megabytes = (psutil.Process().memory_info().rss - before) / 1e6
    return described, graphs, rows, planner, megabytes
