"""Graphs: compiled, checked against the reference, and timed.

make.py       every graph of an artifact, with one mitigation after another until outputs are finite
session.py    compiles and checks one graph after the other
processes.py  compiles each in a process of its own, for engines that take minutes
loader.py     loads graphs that were just compiled; device.py does so in another process
parity.py     how far a graph's outputs are from the reference's; tolerance.py: how far they may be
diagnosis.py  why a graph cannot be made, or is not faithful
times.py      the times of graphs on this machine
"""
