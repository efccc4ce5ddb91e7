"""Ready-made comparisons: `marina bench table` and `marina bench peers`. Depends on all other subpackages of bench.

kinds.py      the tables by name, and the layout of their results
job.py        the parameters of a table run
published.py  figures published by others, for the columns beside ours
nlp_12x.py    AWS: BERT-base, batch 1 and 6, one core per model and all cores per model, with costs
ava.py        Autodesk: an intent model at batch 1, throughput and latency over time
search.py     Amazon Search: p99 at rising load until it exceeds 10 ms, and duplicates in bulk
darwinbox.py  Darwinbox: time per resume, eager and compiled, one by one and in mini-batches
eager.py      the eager models of that table
overhead.py   the cost of serving, compared with the usual handler and the bare graphs: `make bench`
latency.py    where the milliseconds of a text alone go, with batches and without
packed.py     a few packed graphs against many ordinary ones
bulk.py       jobs in bulk, the bare graphs and sentence-transformers: `make bench-bulk`
peers/        other ways to serve, each in its own virtual environment: `make bench-peers`
"""
