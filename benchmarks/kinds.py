"""The tables by name: those of `marina bench table`, and those that only this project measures."""

from __future__ import annotations

from benchmarks.peers import report, table
from benchmarks.tables import ava, bulk, chain, darwinbox, hosts, nlp_12x, overhead, packed, search, tasks
from marina.bench.tables import kinds
from marina.bench.tables.kinds import TableKind, Tables

TABLES: Tables = {
    **kinds.TABLES,
    **{
        module.KIND: TableKind(module.measure, module.layout)
        for module in (nlp_12x, ava, darwinbox, hosts, packed, tasks, chain)
    },
    **{module.KIND: TableKind(module.measure, module.layout, module.draw) for module in (search, bulk, overhead)},
    table.KIND: TableKind(table.measure, report.layout, report.draw),
}
