"""The models of an archive in memory, each proved on its golden rows before it answers.

Enters: the folder of an archive, and the worker's cores. Leaves: members, which turn requests into rows and outputs
into answers. Not known here: hosts, HTTP, and batches of requests.
"""
