"""Generates a load on a server and measures the answers. Independent of the other subpackages of bench.

Enters: bodies, and a load. Leaves: a measurement. Not known here: models and Marina's servers.

profile.py      where requests go, how they are sent, and for how long
mix.py          generated texts of common words
payload.py      JSON bodies with texts from a file, a histogram of lengths, or the built-in mix
arrivals.py     send times of requests in an open loop
transport.py    many concurrent requests over HTTP or gRPC
histogram.py    HDR histograms of latencies
generator.py    one process that sends requests and reports one sample per window
measurement.py  the result of a measurement
summary.py      figures from the samples of all processes
runner.py       starts the processes, and repeats windows until they agree
"""
