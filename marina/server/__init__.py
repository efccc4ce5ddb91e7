"""The life of a server: start, stop, models, upgrades, drains and restarts.

Enters: archives of a model store. Leaves: a server that has them READY. Nothing here knows how an archive was compiled;
what differs between hosts is in hosts/.
"""
