"""The conclusion of a result in a few sentences: the fastest entry, its lead, where its time goes, and its cost."""

from __future__ import annotations

from marina.bench.report.figures import LOAD, Figures, figures_of, under_load, varying
from marina.bench.report.results import Result
from marina.bench.report.standard import labelled
from marina.bench.report.table import cell, number

STAGES = {"graph": "the graphs", "tokenize": "tokenizing", "answer": "writing answers", "read": "reading requests"}


def conclude(result: Result) -> str:
    """The conclusion of a standard result; "" if nothing was answered."""
    answered = [one for one in figures_of(result) if one.p99_ms]
    if not answered:
        return ""
    best = _best(answered)
    said = [_speed(best, answered, result), _binds(best), _cost(best)]
    return " ".join(sentence for sentence in said if sentence)


def _best(answered: list[Figures]) -> Figures:
    """The highest throughput of closed loops; if there are none, the highest rate and then the lowest p99."""
    closed = [one for one in answered if one.entry.configuration.rate is None]
    if closed:
        return max(closed, key=lambda one: one.throughput.median)
    return max(answered, key=lambda one: (one.entry.configuration.rate or 0, -one.latency_ms["p99"]))


def _speed(best: Figures, answered: list[Figures], result: Result) -> str:
    name = name_of(best, result) or cell(best.entry.configuration.model)
    figures = (
        f"{number(best.throughput.median)} instances per second, with a median of {number(best.latency_ms['p50'])} ms "
        f"and a p99 of {number(best.latency_ms['p99'])} ms{_load(best)}"
    )
    rivals = [one for one in answered if one is not best and name_of(one, result) != name_of(best, result)]
    if not rivals:
        return f"{name} answered {figures}."
    if best.faster and best.faster.median > 1.0:
        base = f" That is {number(best.faster.median)} times the baseline."
    else:
        base = ""
    ties = [name_of(rival, result) for rival in rivals if best.place == rival.place == "1=" and _compared(rival, best)]
    level = f" The difference from {'; '.join(dict.fromkeys(ties))} is not significant." if ties else ""
    return f"{name} is fastest: {figures}.{base}{level}"


def name_of(one: Figures, result: Result) -> str:
    """What distinguishes the entry's server from the others', without its load."""
    known = one.entry.configuration.known()
    fields = [name for name in varying(result.entries) if name not in (*LOAD, "shapes", "part")]
    if not any(name in known for name in fields):
        return ""
    parts = [cell(known[name]) if len(fields) == 1 else labelled(name, known[name]) for name in fields if name in known]
    return ", ".join(parts)


def _compared(one: Figures, other: Figures) -> bool:
    """Whether places compare two entries."""
    return under_load(one.entry.configuration) == under_load(other.entry.configuration)


def _load(one: Figures) -> str:
    configuration = one.entry.configuration
    if configuration.rate is not None:
        return f" at {configuration.rate:g} requests per second"
    if configuration.connections is None:
        return ""
    return f" at {configuration.connections} connection{'s' * (configuration.connections > 1)}"


def _binds(one: Figures) -> str:
    """What most of a request's time is spent on, if the server reports it."""
    server = one.entry.rounds[-1].server
    if server is None or not server.stage_share:
        return ""
    if server.queue_ms is not None and server.queue_ms > 2 * server.worker_ms:
        return f"A request waited {number(server.queue_ms)} ms in the queue: the workers are the bottleneck."
    stage, share = max(server.stage_share.items(), key=lambda item: item[1])
    return f"In the worker, {STAGES.get(stage, stage)} took {share:.0%} of the time."


def _cost(one: Figures) -> str:
    return "" if one.cost is None else f"A million inferences cost {number(one.cost, 3)} USD."
