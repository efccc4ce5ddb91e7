"""Programs as users write them, which mypy reads with `make check`, and a test with the installed wheel; none is run.

`assert_type` fails where the API gives another type. A line that must be refused carries the code of its error, and
mypy complains if there is none.
"""
