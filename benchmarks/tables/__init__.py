"""Tables that others have published, and tables of this project.

published.py  figures published by others, for the columns beside ours
nlp_12x.py    AWS: BERT-base, batch 1 and 6, one core per model and all cores per model, with costs
ava.py        Autodesk: an intent model at batch 1, throughput and latency over time
search.py     Amazon Search: p99 at rising load until it exceeds 10 ms, and duplicates in bulk
darwinbox.py  Darwinbox: time per resume, eager and compiled, one by one and in mini-batches
eager.py      the eager models of that table
overhead.py   the cost of serving, compared with the usual handler and the bare graphs
hosts.py      TorchServe against Ray Serve
packed.py     a few packed graphs against many ordinary ones
bulk.py       jobs in bulk, the bare graphs and sentence-transformers
"""
