"""Measures named strategies in interleaved rounds. Needs the load, the results and the servers.

rounds.py      the harness: every strategy in every round, each round in an order of its own
strategies.py  what the harness measures: a model that TorchServe serves
journal.py     rounds on file, so that a sweep that was cut off goes on where it stopped
spec.py        a bench.yaml, and every combination that it lists
run.py         measures a sweep
single.py      one load on one model, or its bare graphs
"""
