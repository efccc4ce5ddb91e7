import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.kinds import TABLES
from benchmarks.tables import nlp_12x
from benchmarks.tables.published import published
from benchmarks.tables.search import FIRST_RATE, highest_passing_rate, within_limit
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import Payload
from marina.bench.report.results import Configuration
from marina.bench.report.table import markdown_of
from marina.bench.tables import kinds
from marina.bench.tables.kinds import layout_of, table_kind
from marina.cli.bench import app
from marina.errors import MarinaError
from marina.project import Project
from tests.marina.bench.results import entry, measured, result


def rounds(throughput: float, latency_ms: float = 4.0) -> list[Measurement]:
    return [measured(throughput * factor, latency_ms) for factor in (1.0, 1.02, 0.98)]


def test_tables_are_known_by_name() -> None:
    names = "nlp-12x ava search darwinbox overhead bundle bulk hosts latency packed tasks chain peers"
    assert set(TABLES) == {f"table-{name}" for name in names.split()}
    assert table_kind("ava", TABLES) is table_kind("table-ava", TABLES)
    with pytest.raises(MarinaError, match=r"no table chess; there are: .*darwinbox"):
        table_kind("chess", TABLES)


def test_the_help_names_every_table() -> None:
    shown = CliRunner().invoke(app, ["table", "--help"]).output
    missing = [name for name in kinds.TABLES if not re.search(rf"\b{name.removeprefix('table-')}\b", shown)]
    assert missing == []


@given(st.integers(1, 100_000))
def test_the_highest_rate_is_found_within_a_part_of_the_last_step(limit: int) -> None:
    tried: list[float] = []

    def kept(rate: float) -> bool:
        tried.append(rate)
        return rate <= limit

    highest = highest_passing_rate(kept)
    if limit < FIRST_RATE:
        assert highest is None
    else:
        assert highest is not None
        assert highest <= limit
        # a step doubles the rate, and was halved twice
        assert limit - highest <= highest / 4 or limit > FIRST_RATE * 2**11
    assert len(tried) == len(set(tried))
    assert len(tried) >= 5


def test_a_rate_with_errors_or_a_late_tail_is_not_kept() -> None:
    assert within_limit(rounds(10, latency_ms=4.0))
    assert not within_limit(rounds(10, latency_ms=9.0))
    assert not within_limit([*rounds(10), measured(10, errors={"HTTP 503": 1})])


def test_published_rows_stand_below_ours_in_the_same_columns() -> None:
    configuration = {"batch": 6, "mode": "data parallel", "cores_per_model": 1}
    table = result(
        [
            entry(rounds(20), strategy="the usual handler", **{**configuration, "mode": "TorchScript on the CPU"}),
            entry(rounds(50), strategy="Marina", **configuration),
        ],
        kind="table-nlp-12x",
    )
    layout = layout_of(table, TABLES)
    (found,) = layout.tables
    usual, parallel, *theirs = found.rows
    assert parallel[found.columns.index("x throughput")] == "2.50"
    assert parallel[found.columns.index("x cost")] == "0.400"
    assert usual[0] == "the usual handler"
    assert [row[0] for row in theirs] == ["published by AWS"] * 10
    assert all(len(row) == len(found.columns) for row in found.rows)
    fastest = next(row for row in theirs if row[1:4] == ["inf1.6xlarge", "1", "pipeline"])
    assert fastest[found.columns.index("inst./s") :] == ["1793", "6.9", "0.30", "12.0", "0.30"]
    assert layout.conclusion.startswith(
        "Marina with data parallel at batch 6 is fastest here: 50.0 texts per second, 2.50"
    )


@pytest.mark.parametrize(
    ("engine", "modes"),
    [
        ("neuron", ["data parallel", "pipeline"]),
        ("neuronx", ["data parallel"]),
        ("openvino", ["data parallel", "all cores for one model"]),
    ],
)
def test_bert_base_is_laid_on_the_cores_that_there_are(
    engine: str, modes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nlp_12x, "usable_cores", lambda _: 4)
    monkeypatch.setattr(nlp_12x, "cpu_cores", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(nlp_12x, "find_source", lambda *_: tmp_path)
    packed: list[int] = []
    monkeypatch.setattr(nlp_12x, "pack_usual", lambda *arguments, **_: packed.append(arguments[5]))
    fields = {"name": "b", "task": "text-classification", "source": {"path": "weights"}, "engine": engine}
    server: Any = SimpleNamespace(project=Project(tmp_path))
    for batch in (1, 6):
        strategies = nlp_12x._strategies(server, Project(tmp_path), fields, batch, Payload([b"{}"], 1, "made up"))
        assert [one.configuration.mode for one in strategies] == ["TorchScript on the CPU", *modes]
        assert [one.configuration.cores_per_model for one in strategies[1:]] == [1, 4][: len(modes)]
    assert packed == [1, 6]


def test_the_table_of_ava_has_its_windows() -> None:
    table = result(
        [entry(rounds(30), strategy="the usual handler"), entry(rounds(240), strategy="Marina")],
        kind="table-ava",
        baseline=Configuration(strategy="the usual handler"),
    )
    layout = layout_of(table, TABLES)
    figures, others, windows = layout.tables
    assert figures.rows[1][figures.columns.index("x usual handler")].startswith("8.00")
    assert others.rows == [
        ["throughput against the baseline", "4.9", "8.00"],
        ["latency against the baseline", "about 0.5", "1.00"],
    ]
    assert len(windows.rows) == 2 * 3 * 2
    assert layout.conclusion.startswith("Marina answers 8.00 times as many requests per second as the usual handler")


def test_the_table_of_search_says_where_the_promise_breaks() -> None:
    entries = [
        entry(rounds(40, 3.0), strategy="marina.Scorer", rate=40.0, connections=None, part="queries"),
        entry(rounds(20, 3.0), strategy="direct", rate=20.0, connections=None, part="queries"),
        entry(rounds(30, 7.0), strategy="direct", rate=30.0, connections=None, part="queries"),
        entry(rounds(30, 8.0), strategy="TorchServe", rate=30.0, connections=None, part="queries"),
        entry(rounds(900), instances=32, part="bulk"),
    ]
    more = {"highest_rates": {"marina.Scorer": 40.0, "direct": 20.0, "TorchServe": None}, "promise_ms": 10.0}
    layout = layout_of(result(entries, kind="table-search", more=more), TABLES)
    assert [row[7] for row in layout.tables[0].rows] == ["met", "met", "missed", "missed"]
    assert layout.conclusion == (
        "The p99 stays within 10 ms up to 40 requests per second with marina.Scorer, up to 20 requests per second with "
        "direct, never with TorchServe (15.9 ms at best). In bulk, 900 pairs per second are compared."
    )
    # what is published is of a service, so marina.Scorer does not count
    assert [row[2] for row in layout.tables[2].rows[:2]] == ["5.97 at best", "20 within it"]
    never = {"highest_rates": {"direct": None}, "promise_ms": 10.0}
    layout = layout_of(result([entries[2], entries[4]], kind="table-search", more=never), TABLES)
    assert layout.conclusion.startswith("The p99 is above 10 ms at the lowest rate already; at best it is ")
    assert layout.tables[2].rows[1][2] == "none within it"


def test_the_table_of_darwinbox_tells_reductions() -> None:
    strategies = ("eager, padded to 512", "eager, dynamic padding in mini-batches of 16", "Marina, one by one")
    table = result(
        [entry(rounds(rate), strategy=name) for name, rate in zip(strategies, (10, 20, 100), strict=True)],
        kind="table-darwinbox",
        price=None,
    )
    found, others = layout_of(table, TABLES).tables
    assert [row[found.columns.index("time saved")][:4] for row in found.rows] == ["", "50.0", "90.0"]
    assert found.rows[2][found.columns.index("ms per resume")].startswith("10.0")
    assert others.rows[1] == ["time saved, one by one", "over 87 %", "90 %"]


def test_the_table_of_a_bundle_tells_memory_and_throughput() -> None:
    entries = [
        entry(rounds(rate), strategy=name, connections=12, model="bot")
        for name, rate in (("an archive for each model", 100), ("one bundle", 110))
    ]
    more = {"models": ["a", "b"], "megabytes": {"an archive for each model": [800.0], "one bundle": [400.0]}}
    found = layout_of(result(entries, kind="table-bundle", price=None, more=more), TABLES)
    assert found.conclusion == (
        "2 models in one worker need 400 MB, 50% less than a worker for each (800 MB), and answer 1.10 to 1.10 times "
        "as many requests."
    )
    assert [row[3][:4] for row in found.tables[0].rows] == ["", "1.10"]
    assert [row[-1] for row in found.tables[0].rows] == ["800", "400"]


def test_the_table_of_hosts_compares_them_under_the_same_load() -> None:
    entries = [
        entry(rounds(rate), strategy=host, connections=connections, instances=1)
        for host, connections, rate in (
            ("bare graphs", None, 500),
            *(("TorchServe", 1, 100), ("TorchServe", 64, 400)),
            *(("direct", 1, 150), ("direct", 64, 420)),
            *(("Ray Serve", 1, 80), ("Ray Serve", 64, 200)),
        )
    ]
    measured = result(entries, kind="table-hosts", price=None)
    found = layout_of(replace(measured, more={"paced_ms": [2.0, 4.0, 3.0]}), TABLES)
    assert "a text alone, after a pause, takes 3.0 ms in the bare graphs" in found.notes
    assert found.conclusion == (
        "direct answers 105% to 150%, Ray Serve answers 50% to 80% of what TorchServe does on the same cores."
    )
    assert [[row[0], row[2], row[3], *row[-2:]] for row in found.tables[0].rows] == [
        ["bare graphs", "", "500", "", ""],
        ["TorchServe", "1", "100", "20%", ""],
        ["direct", "1", "150", "30%", "150%"],
        ["Ray Serve", "1", "80", "16%", "80%"],
        ["TorchServe", "64", "400", "80%", ""],
        ["direct", "64", "420", "84%", "105%"],
        ["Ray Serve", "64", "200", "40%", "50%"],
    ]


def test_the_table_of_packed_graphs_compares_them_under_the_same_load() -> None:
    entries = [
        entry(rounds(rate), model="ava-intent", strategy=kind, part=part, connections=connections, instances=texts)
        for kind, part, texts, connections, rate in (
            ("24 ordinary", "bare graphs", None, None, 100),
            ("4 packed", "bare graphs", None, None, 120),
            ("24 ordinary", "served", 32, 16, 80),
            ("4 packed", "served", 32, 16, 100),
        )
    ]
    name = "ava-intent-4-packed"
    more = {
        "seconds": {name: {"graphs": 0.5, "whole": 17.0}},
        "shapes": {name: ["1x24p", "4x128p"]},
        "resident_megabytes": {name: 487.0},
        "paced_ms": {name: [2.0, 2.5, 2.25]},
    }
    found = layout_of(replace(result(entries, kind="table-packed", price=None), more=more), TABLES)
    assert found.conclusion == "Packed graphs answer 1.20 to 1.25 times as many texts as ordinary ones."
    assert [[row[1], row[2], row[-1]] for row in found.tables[0].rows] == [
        ["24 ordinary", "all, bare", ""],
        ["4 packed", "all, bare", "1.20x"],
        ["24 ordinary", "32", ""],
        ["4 packed", "32", "1.25x"],
    ]
    assert found.notes[0] == (
        "ava-intent-4-packed: graphs 1x24p, 4x128p; 0.5 s to compile them, 17 s with all checks; "
        "resident worker 487 MB; a text alone in its bare graph, with pauses, 2.25 ms"
    )


def test_the_table_of_tasks_compares_with_bare_graphs_and_with_the_library() -> None:
    entries = [
        entry(rounds(rate), model="reranking", part=part, precision=precision)
        for part, precision, rate in (
            ("its library, torch, f32", None, 100),
            ("bare graphs", "f32", 250),
            ("marina.Scorer", "f32", 200),
            ("bare graphs", "auto", 500),
            ("marina.Scorer", "auto", 450),
        )
    ]
    more = {"precisions": {"reranking-auto": "int8", "reranking-f32": "f32"}}
    found = layout_of(replace(result(entries, kind="table-tasks", price=None), more=more), TABLES)
    assert [[*row[1:3], *row[-2:]] for row in found.tables[0].rows] == [
        ["its library, torch, f32", "", "", ""],
        ["bare graphs", "f32", "", ""],
        ["marina.Scorer", "f32", "80%", "2.0x"],
        ["bare graphs", "auto: int8", "", ""],
        ["marina.Scorer", "auto: int8", "90%", "4.5x"],
    ]
    assert found.conclusion == (
        "marina.Scorer keeps 80% to 90% of the bare graphs, and answers 2.0 to 4.5 times as many instances as the "
        "libraries; median 3.2."
    )


def test_the_table_of_chains_compares_with_two_requests() -> None:
    entries = [
        entry(rounds(rate, latency_ms), strategy=name, instances=documents)
        for name, documents, rate, latency_ms in (
            ("two requests", 8, 100, 80.0),
            ("two requests", 24, 200, 120.0),
            ("one request for the chain", 8, 110, 72.0),
            ("one request for the chain", 24, 250, 96.0),
        )
    ]
    found = layout_of(result(entries, kind="table-chain", price=None), TABLES)
    assert [row[-1].partition(" ")[0] for row in found.tables[0].rows] == ["", "", "1.10", "1.25"]
    assert found.conclusion == "A chain answers 1.10 to 1.25 times as many documents as two requests; median 1.18."


def test_the_table_of_latencies_tells_the_parts_of_a_request() -> None:
    served = {"part": "served", "connections": 1}
    entries = [
        entry(rounds(500, latency_ms=2.0), strategy="no batches", part="bare graphs", connections=None),
        entry(rounds(100, latency_ms=9.0), strategy="batches of 32 at most", **served),
        entry(rounds(90, latency_ms=8.0), strategy="no batches", **served),
        entry(rounds(100, latency_ms=9.5), strategy="no batches", **{**served, "rate": 100.0}),
    ]
    more = {"paced_ms": [2.5, 2.25, 2.75], "shapes": ["1x24p", "4x128p"]}
    found = layout_of(replace(result(entries, kind="table-latency", price=None), more=more), TABLES)
    assert found.conclusion == "A text alone takes 12.0 ms with no batches, 9.0 ms more than its bare graph."
    bare, batches, alone, opened = found.tables[0].rows
    assert bare[:3] == ["bare graphs", "one after the other", "3.00"]
    assert batches[:2] + batches[4:5] == ["batches of 32 at most", "one after the other", "10.50"]
    assert alone[5:] == ["1.00", "4.50", "0.50", "6.00"]
    assert opened[:2] == ["no batches", "100 requests/s"]


WITHOUT = {
    "table-peers",
    "table-overhead",
    "table-bundle",
    "table-bulk",
    "table-hosts",
    "table-latency",
    "table-packed",
    "table-tasks",
    "table-chain",
}


@pytest.mark.parametrize("name", sorted(set(TABLES) - WITHOUT))
def test_every_table_names_what_was_published_and_where(name: str) -> None:
    figures = published(name)
    markdown = markdown_of(layout_of(SMALLEST[name], TABLES))
    assert "Not measured here" in markdown
    for said in (figures.source, figures.claim, figures.hardware):
        assert said in markdown
    for row in figures.rows:
        assert f"| {' | '.join(map(str, row))} |" in markdown


SMALLEST = {
    "table-nlp-12x": result(
        [entry(rounds(20), strategy="the usual handler", batch=1, mode="TorchScript on the CPU", cores_per_model=2)],
        kind="table-nlp-12x",
    ),
    "table-ava": result([entry(rounds(20), strategy="Marina")], kind="table-ava"),
    "table-search": result(
        [entry(rounds(20), strategy="direct", rate=20.0, part="queries")],
        kind="table-search",
        more={"highest_rates": {"direct": 20.0}, "promise_ms": 10.0},
    ),
    "table-darwinbox": result([entry(rounds(20), strategy="eager, padded to 512")], kind="table-darwinbox"),
}
