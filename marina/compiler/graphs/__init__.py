"""Graphs: compiled, checked against the reference, and timed.

Enters: a job and an exported model. Leaves: graphs whose outputs are right. Not known here: any engine by its name.

make.py       makes every graph of an artifact, adding mitigations one by one until outputs are finite
session.py    compiles and checks one graph after another
processes.py  compiles each graph in its own process, for engines that take minutes
loader.py     loads graphs that were just compiled; device.py does so in another process
parity.py     how much a graph's outputs differ from the reference's; tolerance.py: how much they may differ
diagnosis.py  explains why a graph cannot be made, or why it differs from the reference
times.py      the times of graphs on this machine
"""
