"""Simulates servers: requests arrive, wait in TorchServe's queues, are batched, planned, computed and answered.

values.py   what goes in and comes out: plain arrays, compiled by Numba where they are used
calls.py    the least time of the calls for a batch: what the workers' planner finds
batches.py  TorchServe's rule for batches
cores.py    batches that compute at the same time, and what they take from each other
run.py      the loop over events
system.py   makes the arrays from costs of models and from how they are served
"""
