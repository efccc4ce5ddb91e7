"""A running server, as its management API shows it.

Enters: the port and the tokens of a run. Leaves: its models, and whether their workers are READY. The same for every
host.
"""
