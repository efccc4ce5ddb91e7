"""What serving with Marina costs, against the usual way and against the bare graphs: `make bench`.

run.py       does it all, prints a table, and writes build/bench/result.json and result.png
setup.py     makes the models and archives, in a project of its own under build/bench
picture.py   draws the result
agreement.py compares `marina bench` with wrk
nothing/     a handler that does nothing, for what TorchServe itself takes
peers/       other ways to serve, each in a virtual environment of its own: `make bench-peers`
"""
