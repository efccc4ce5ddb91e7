"""What the engines for NeuronCores share.

Enters: a traced module and the settings of a spec. Leaves: the files of a graph, and what the doctor says of a machine.
Not known here: which of the engines it is.

engine.py          the engine that both of them extend
host.py            the driver, the runtime and the packages of a machine
mitigations.py     for outputs that are not finite
pipeline.py        the cores that a graph spreads over on Inf1
claims.py          what documentation says and nobody has run
inf1_operators.py  the operators that AWS lists for Inf1
"""
