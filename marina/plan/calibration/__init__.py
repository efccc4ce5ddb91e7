"""Measures what serving a model costs on this machine, once; kept beside its artifact, never in an archive.

Enters: a spec, and a server for benchmarks. Leaves: a calibration in its file. Not known here: workloads and promises.

record.py     the values, and their file
speed.py      how fast the machine is, from one graph
worker.py     in a process like a worker: graphs, their spread, and the worker's stages
server.py     a server under a few loads: latencies, throughput, CPU time
fit.py        costs that cannot be measured by themselves, fitted so that simulations of those loads match them
costs.py      the costs of a worker in a simulation
loads.py      simulations of those loads, and what would explain the measured ones
calibrate.py  all of these, in order
"""
