"""Scores in bulk: rows of files and databases in, answers out.

Enters: the spec of a job. Leaves: rows with answers, in its place, each once. Not known here: compiling, and servers of
this machine.

spec       the spec of a job
score      runs a job: opens its places, starts processes, and returns how it ended
places/    files and databases: rows to read, answers to write, and which shards are done
formats/   formats of files
run        hands shards to the processes of a pool
processes  the pool of this machine
on_ray     the pool of a Ray cluster; only it knows Ray
work       a process: reads, answers and writes shards
scorer     answers Arrow batches with a model; `marina.Scorer`
remote     answers rows with a server elsewhere
layout     columns that are read, carried along and written
answers    answers as typed columns
job        whether a job that goes on is still the same
"""
