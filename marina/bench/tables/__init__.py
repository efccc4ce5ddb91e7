"""Ready-made comparisons: `marina bench table` and `marina bench peers`. Needs all other rooms.

kinds.py      the tables by their names, and how a result of each is laid out
job.py        what a table is measured with
published.py  what others have published, for the columns beside ours
nlp_12x.py    AWS: BERT-base, batch 1 and 6, one core a model and all cores a model, with costs
ava.py        Autodesk: an intent model at batch 1, throughput and latency over time
search.py     Amazon Search: p99 at rising load until 10 ms is broken, and duplicates in bulk
darwinbox.py  Darwinbox: time for a resume, eager and compiled, one by one and in mini-batches; eager.py: eager
overhead.py   what serving costs, against the usual handler and the bare graphs: `make bench`
peers/        other ways to serve, each in a virtual environment of its own: `make bench-peers`
"""
