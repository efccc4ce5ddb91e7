"""Measures what serving a model costs on this machine, once; kept beside its artifact, never in an archive.

record.py     the values, and their file
worker.py     in a process like a worker: graphs, their spread, and the worker's stages
server.py     a server under a few loads: latencies, throughput, CPU time
fit.py        what cannot be measured by itself: fitted so that simulations of those loads give what was measured
calibrate.py  all of it, in order
"""
