"""Measures served models, and makes the tables that the field publishes: `marina bench`.

How a load is put on a server, in this order:
load.py        what is asked, how, and for how long
texts.py       what is sent: texts of a file, of a histogram of lengths, or of the built-in mix (mix.py)
arrivals.py    when requests of an open loop are due
transport.py   many requests in flight, over HTTP or gRPC
generator.py   one process that sends and counts, window by window
measure.py     starts the processes, and repeats windows until they agree
measured.py    what was measured, from what the processes saw; histogram.py: HDR histograms
inside.py      what the server's own metrics say of the same time
served.py      a served model as something to measure; bare.py: its graphs without a server

What is made of that:
run.py         one load, the bare graphs, a sweep or a table
sweep.py       every combination that a bench.yaml lists; journal.py keeps its rounds
stage.py       a TorchServe of the benchmark's own, for sweeps and tables
tables/        the tables that others have published, with their figures beside
usual/         the usual TorchServe handler, to compare with; bert_base.py: a model of that size
costs.py       USD for a million inferences, from instances.yaml
statistics.py  intervals, and which configurations cannot be told apart
fields.py      reads instances.yaml and bench.yaml
result.py      what is stored; machine.py: on what it was measured
report/        tables, CSV, pictures and pages, made from a stored result
"""
