"""Simulates servers: requests arrive, wait in TorchServe's queues, are batched, planned, computed and answered.

Enters: arrays of requests, costs and settings. Leaves: when each request was answered. Not known here: files and specs.

values.py       the inputs and the result: plain arrays, read by functions that Numba compiles
system.py       makes the arrays from costs of models and from how they are served
state.py        the arrays that change during a simulation
run.py          the loop over events
events.py       what events are, and how they are scheduled
arrivals.py     a request arrives, and enters a queue
batches.py      TorchServe's rule for batches
workers.py      a worker begins a batch, computes it, and answers its requests
calls.py        the least time of the calls for a batch, as the workers' planner finds it
cores.py        batches that compute at the same time, and what they take from each other
uncertainty.py  how far measurements may be from simulations
"""
