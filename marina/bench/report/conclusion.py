"""The conclusion of a result in a few sentences: the fastest entry, its lead, where its time goes, and its cost."""

from __future__ import annotations

from marina.bench.report.figures import LOAD, Figures, comparison_key, figures_of, varying_fields
from marina.bench.report.results import Result
from marina.bench.report.standard import labelled
from marina.bench.report.table import cell, number

STAGES = {"graph": "the graphs", "tokenize": "tokenizing", "answer": "writing answers", "read": "reading requests"}


def conclude(result: Result) -> str:
    """The conclusion of a standard result; "" if nothing was answered."""
    answered = [figure for figure in figures_of(result) if figure.p99_ms]
    if not answered:
        return ""
    best = _best(answered)
    sentences = [_speed_sentence(best, answered, result), _bottleneck_sentence(best), _cost_sentence(best)]
    return " ".join(sentence for sentence in sentences if sentence)


def _best(answered: list[Figures]) -> Figures:
    """The highest throughput of closed loops; if there are none, the highest rate and then the lowest p99."""
    closed = [figure for figure in answered if figure.entry.configuration.rate is None]
    if closed:
        return max(closed, key=lambda figure: figure.throughput.median)
    return max(answered, key=lambda figure: (figure.entry.configuration.rate or 0, -figure.latency_ms["p99"]))


def _speed_sentence(best: Figures, answered: list[Figures], result: Result) -> str:
    best_name = name_of(best, result) or cell(best.entry.configuration.model)
    figures_phrase = (
        f"{number(best.throughput.median)} instances per second, with a median of {number(best.latency_ms['p50'])} ms "
        f"and a p99 of {number(best.latency_ms['p99'])} ms{_load_phrase(best)}"
    )
    rivals = [figure for figure in answered if figure is not best and name_of(figure, result) != name_of(best, result)]
    if not rivals:
        return f"{best_name} answered {figures_phrase}."
    if best.speedup and best.speedup.median > 1.0:
        baseline_sentence = f" That is {number(best.speedup.median)} times the baseline."
    else:
        baseline_sentence = ""
    best_key = comparison_key(best.entry.configuration)  # only entries with the same key have places among each other
    ties = [
        name_of(rival, result)
        for rival in rivals
        if best.place == rival.place == "1=" and comparison_key(rival.entry.configuration) == best_key
    ]
    ties_sentence = f" The difference from {'; '.join(dict.fromkeys(ties))} is not significant." if ties else ""
    return f"{best_name} is fastest: {figures_phrase}.{baseline_sentence}{ties_sentence}"


def name_of(figure: Figures, result: Result) -> str:
    """The fields that distinguish the entry's server from the servers of other entries, without those of its load."""
    values = figure.entry.configuration.known_fields()
    fields = [name for name in varying_fields(result.entries) if name not in (*LOAD, "shapes", "part")]
    if not any(name in values for name in fields):
        return ""
    parts = [
        cell(values[name]) if len(fields) == 1 else labelled(name, values[name]) for name in fields if name in values
    ]
    return ", ".join(parts)


def _load_phrase(figure: Figures) -> str:
    configuration = figure.entry.configuration
    if configuration.rate is not None:
        return f" at {configuration.rate:g} requests per second"
    if configuration.connections is None:
        return ""
    return f" at {configuration.connections} connection{'s' * (configuration.connections > 1)}"


def _bottleneck_sentence(figure: Figures) -> str:
    """Where most of a request's time goes, if the server reports it."""
    server = figure.entry.rounds[-1].server
    if server is None or not server.stage_share:
        return ""
    if server.queue_ms is not None and server.queue_ms > 2 * server.worker_ms:
        return f"A request waited {number(server.queue_ms)} ms in the queue: the workers are the bottleneck."
    stage, share = max(server.stage_share.items(), key=lambda item: item[1])
    return f"In the worker, {STAGES.get(stage, stage)} took {share:.0%} of the time."


def _cost_sentence(figure: Figures) -> str:
    return "" if figure.cost is None else f"A million inferences cost {number(figure.cost, 3)} USD."
