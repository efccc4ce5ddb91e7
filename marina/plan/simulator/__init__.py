"""Simulates servers: requests arrive, wait in TorchServe's queues, are batched, planned, computed and answered.

values.py   the inputs and the result: plain arrays, read by functions that Numba compiles
calls.py    the least time of the calls for a batch, as the workers' planner finds it
batches.py  TorchServe's rule for batches
cores.py    batches that compute at the same time, and what they take from each other
run.py      the loop over events
system.py   makes the arrays from costs of models and from how they are served
uncertainty.py  how far measurements may be from simulations
"""
