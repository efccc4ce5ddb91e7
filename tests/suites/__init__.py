"""Suites of slow tests, what each depends on, and which of them have passed with just that.

Enters: the table of suites, and the files of this repository. Leaves: test runs, and `tests/proven.json`.
Nothing here imports Marina or a package that is not Python's own: it runs before anything is installed.
"""
