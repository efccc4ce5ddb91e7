"""What serving with Marina costs, against the usual way and against the bare graphs: `make bench`.

run.py       does it all, prints a table, and writes build/bench/result.json and result.png
setup.py     makes the models and archives, in a project of its own under build/bench
texts.py     the texts: a fixed mix of lengths
load.py      asks a server over HTTP, in a process of its own
bare.py      runs graphs without a server, in a process of its own
picture.py   draws the result
usual/       the usual TorchServe handler: every text padded to one shape
nothing/     a handler that does nothing, for what TorchServe itself takes
"""
