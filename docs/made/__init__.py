"""Pages and files that are made from code: `make docs` writes them, a test compares them.

spec.py         reference/spec.md, every field of a model spec
cli.py          reference/cli.md, every command
errors.py       reference/errors.md, every kind of error
telemetry.py    deploy/metrics.yaml, and the table of reference/metrics.md
supported.py    the table of models.md
benchmarks.py   the tables and pictures of benchmarks.md and recipes.md
site.py         what the site shows differently than the repository
"""
