"""Measures named strategies in interleaved rounds. Depends on bench/load, bench/report and bench/server.

Enters: strategies. Leaves: the measurements of each round. Not known here: tables.

rounds.py      the harness: measures every strategy in every round, in a different order each round
strategies.py  the usual strategies: a model that TorchServe serves, and its graphs without a server
journal.py     stores rounds, so that an interrupted sweep continues where it stopped
spec.py        a bench.yaml, and every combination that it lists
run.py         measures a sweep
single.py      one load on one model, or its bare graphs
"""
