"""What is measured. Depends on bench/load and on the values of results.

Enters: archives. Leaves: an endpoint, and figures of its processes. Not known here: reports.

endpoint.py          a served model: its address, its known configuration, and how it is measured
server_metrics.py    the server's own metrics for the duration of a load
benchmark_server.py  a separate TorchServe for benchmarks, which serves one model at a time
bare_graphs.py       the graphs of a model without a server: the upper limit of serving
recording.py         when requests come, and how long their texts are: from metrics, or from a log
footprint.py         what a worker of an archive needs
largest_requests.py  the largest requests that a model may get
spawned.py           processes that measure something without a server
"""
