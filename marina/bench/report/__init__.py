"""Stored results, and the reports that are made from results alone. Depends on the values of bench/load.

Enters: results. Leaves: tables, pictures and pages. Not known here: how anything was measured.

results.py      what is stored: configurations, the measurements of each round, machine and command
machine.py      a description of the machine that was measured
pricing.py      USD per million inferences, from instances.yaml
statistics.py   intervals, and which configurations cannot be told apart
figures.py      what every report derives: medians, intervals, ratios, costs, places
table.py        tables as Markdown and CSV, and the format of their cells
standard.py     the standard tables, and their notes
csv_file.py     the columns of NeuronPerf and of TorchServe's benchmark tool
pictures.py     latency against throughput, cost against p99, latency over time, padding waste
page.py         report.html: one file with tables and pictures
write.py        writes all of them, and prints the tables
"""
