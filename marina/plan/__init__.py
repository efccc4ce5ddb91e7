"""Computes what to deploy: from a workload, what models cost on this machine, and how TorchServe serves.

Enters: a workload. Leaves: an answer: what to deploy, and what it keeps. Not known here: how anything is compiled.

workload.py     the requested workload: models, rates, lengths, a promise, a budget
calibration/    measures what a model costs on a machine: `marina calibrate`
simulator/      simulates servers: queues, batches, plans, cores
"""
