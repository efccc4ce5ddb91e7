"""Computes what to deploy: from a workload, what models cost on this machine, and how TorchServe serves.

Enters: a workload. Leaves: an answer: what to deploy, and what it keeps. Not known here: how anything is compiled.

workload.py     the requested workload: models, rates, lengths, a promise, a budget
make.py         makes the plan, by what the rooms below offer
answers/        says and draws the plan, and writes it
evaluation/     what candidates keep, and the search for the cheapest
options/        the candidates: places, ways to compile, and ways to serve
calibration/    measures what a model costs on a machine: `marina calibrate`
simulator/      simulates servers: queues, batches, plans, cores
"""
