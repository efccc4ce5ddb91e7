"""One run of a server: its state, folder, ports, logs, tokens, lock and environment, whatever its host is.

Enters: a project. Leaves: what its files say of a run. Nothing here knows models, or how a host works.
"""
