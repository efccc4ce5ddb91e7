"""Which lines of handlers/ and marina/ tests run: in their own process, in commands, workers and Ray actors.

measure.py   has every process of an environment measured
start.py     what such a process does when it starts
report.py    the shares by room, and the lines that no test ran
"""
