"""Stored results, and the reports that are made from a result and nothing else. Needs the load's values.

results.py      what is stored: configurations, what each round measured, machine and command
machine.py      what it was measured on
pricing.py      USD for a million inferences, from instances.yaml
statistics.py   intervals, and which configurations cannot be told apart
figures.py      what every report derives: medians, intervals, ratios, costs, places
table.py        a table as Markdown and CSV, and how its cells are written
standard.py     the standard tables, and what a reader must know beside them
csv_file.py     the columns of NeuronPerf and of TorchServe's benchmark tool
pictures.py     latency against throughput, cost against p99, latency over time, padding waste
page.py         report.html: one file with tables and pictures
write.py        writes all of them, and prints the tables
"""
