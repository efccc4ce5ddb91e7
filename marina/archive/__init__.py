"""Archives: `pack` writes them, `read` reads one, `unpacked` loads a model of one that is unpacked.

Enters: artifacts. Leaves: an archive, what is in it, and what a worker of it needs. Not known here: compiling.
"""
