"""Puts a load on a server, and says what it saw. Needs nothing of the other rooms.

profile.py      where requests go, how they are sent, and for how long
mix.py          texts made up of common words
payload.py      what is sent: JSON bodies of a file, of a histogram of lengths, or of the built-in mix
arrivals.py     when requests of an open loop are due
transport.py    many requests in flight, over HTTP or gRPC
histogram.py    HDR histograms of latencies
generator.py    one process that sends and counts, a sample a window
measurement.py  what was measured
summary.py      figures from the samples of all processes
runner.py       starts the processes, and repeats windows until they agree
"""
