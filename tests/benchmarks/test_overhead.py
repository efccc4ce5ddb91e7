"""The table of `make bench`, from a small result whose figures are known."""

from __future__ import annotations

import pytest

from benchmarks.kinds import TABLES
from marina.bench.report.results import Entry, Result, read_result, write_result
from marina.bench.tables.kinds import draw, layout_of
from tests.marina.bench.results import entry, measured, result

NEAR = {"one-worker": 400.0, "worker-per-core": 500.0}


def served(strategy: str, instances: int, connections: int, rate: float, **fields: object) -> Entry:
    rounds = [measured(rate * factor) for factor in (1.0, 1.1, 0.9)]
    configuration = {"strategy": strategy, "instances": instances, "connections": connections, "part": "served"}
    return entry(rounds, **configuration, **fields)


def bare(strategy: str, rate: float) -> Entry:
    rounds = [measured(rate * factor, latency_ms=1.0, server=None) for factor in (1.0, 1.1, 0.9)]
    return entry(rounds, strategy=strategy, connections=None, instances=None, protocol=None, part="bare graphs")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Result:
    entries = [bare(name, 1000.0) for name in NEAR] + [bare("bert-base", 20.0)]
    entries.append(served("usual", 1, 64, 50.0))
    for name, rate in NEAR.items():
        entries.append(served(name, 32, 64, rate * 2, precision="int8", shapes=("1x8", "8x32")))
        entries.append(served(name, 1, 64, rate, precision="int8", shapes=("1x8", "8x32")))
    entries.append(served("bert-base", 1, 16, 18.0))
    more = {
        "paced_ms": {name: [1.9, 2.0, 2.1] for name in (*NEAR, "bert-base")},
        "resident_megabytes": {"one-worker": 1190.4, "nothing": 233.0, "one-worker, bare": 902.0},
    }
    made = result(entries, kind="table-overhead", title="what serving costs", price=None, more=more)
    return read_result(write_result(made, tmp_path_factory.mktemp("overhead")))


def test_bare_graphs_come_first_then_what_was_served_and_bert_base_last(stored: Result) -> None:
    (table,) = layout_of(stored, TABLES).tables
    assert table.columns == ["", "texts", "conn.", "texts/s", "p50 ms", "p99 ms", "of bare graphs", "x usual"]
    assert [row[:4] for row in table.rows] == [
        ["Marina, one worker: bare graphs", "", "", "1000"],
        ["Marina, one worker per core: bare graphs", "", "", "1000"],
        ["bert-base: bare graphs", "", "", "20"],
        ["usual TorchServe handler", "1", "64", "50"],
        ["Marina, one worker", "1", "64", "400"],
        ["Marina, one worker per core", "1", "64", "500"],
        ["Marina, one worker", "32", "64", "800"],
        ["Marina, one worker per core", "32", "64", "1000"],
        ["bert-base", "1", "16", "18"],
    ]


def test_ratios_are_to_its_own_bare_graphs_and_to_the_usual_handler_under_the_same_load(stored: Result) -> None:
    (table,) = layout_of(stored, TABLES).tables
    assert [row[6:] for row in table.rows[3:]] == [
        ["", ""],
        ["40%", "8.0x"],
        ["50%", "10.0x"],
        ["80%", ""],
        ["100%", ""],
        ["90%", ""],
    ]


def test_notes_say_graphs_shares_of_stages_and_memory(stored: Result) -> None:
    notes = layout_of(stored, TABLES).notes
    assert "Marina, one worker: int8, graphs 1x8, 8x32" in notes
    assert "a text alone in its bare graph: 1.50 ms, with pauses as between requests 2.00 ms" in notes
    assert (
        "Marina, one worker per core, 32 texts per request: of the worker's time graph 90.0%, tokenize 10.0%" in notes
    )
    assert "resident: worker 1190 MB, worker that does nothing 233 MB, bare graphs 902 MB" in notes


def test_it_concludes_who_is_fastest_and_by_how_much(stored: Result) -> None:
    assert layout_of(stored, TABLES).conclusion == (
        "Marina, one worker per core is fastest: 500 texts per second with 64 clients, 10 times the usual handler. "
        "That is 50% of what its graphs compute without a server."
    )


def test_its_picture_is_among_those_of_every_result(stored: Result) -> None:
    pictures = draw(stored, TABLES)
    assert {"overhead", "throughput", "latency-throughput"} <= set(pictures)
    assert pictures["overhead"].startswith(b"<?xml")
