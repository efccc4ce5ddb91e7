"""Benchmarks served models, and produces the tables that are common in the field: `marina bench`.

Enters: what is to be measured. Leaves: a result, and reports from results alone.

Subpackages; each depends only on those above it:
load/     generates a load and measures the answers
report/   stored results, and the reports that are made from them
server/   what is measured: endpoints, a separate benchmark server, bare graphs
sweep/    measures named strategies in interleaved rounds; sweeps, and single loads
tables/   ready-made comparisons of a user's models
"""
