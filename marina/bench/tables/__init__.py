"""Ready-made comparisons of a user's models: `marina bench table`. Depends on all other subpackages of bench.

Enters: a table's name and a model. Leaves: a result. Not known here: other projects' servers.

kinds.py      the tables by name, and the layout of their results
job.py        the parameters of a table run
bundle.py     models in one archive against an archive for each of them
latency.py    where the milliseconds of a text alone go, with batches and without
"""
