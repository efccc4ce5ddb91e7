"""Measures served models, and makes the tables that the field publishes: `marina bench`.

Rooms, each of which needs only those above it:
load/     puts a load on a server, and says what it saw
report/   stored results, and the reports that are made from them
server/   what is measured: endpoints, a server of the benchmark's own, bare graphs, the usual handler
sweep/    measures named strategies in interleaved rounds; sweeps, and single loads
tables/   ready-made comparisons: the field's tables, what serving costs, other ways to serve
"""
