"""The hosts, which carry workers and speak to clients: a folder and a line in table.py for each.

Enters: the state of a run. Leaves: the server's process, and what plans and images need to know of each host, its
`Host`. The other half of a host, inside of its workers, is in `handlers/worker/hosts`.
"""
