"""TorchServe itself: its process, configuration, Java and memory.

Enters: the state of a run. Leaves: TorchServe's process. Not known here: models, and other hosts.
"""
