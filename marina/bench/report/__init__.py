"""Reports, each made from a stored result and nothing else: terminal table, CSV, and a page with pictures.

figures.py   what every report derives: medians, intervals, ratios, costs, places
table.py     the standard table, and what a reader must know beside it
layout.py    the tables of a result by its kind, as Markdown and CSV
csv_file.py  the columns of NeuronPerf and of TorchServe's benchmark tool
pictures.py  latency against throughput, cost against p99, latency over time, padding waste
page.py      report.html: one file with tables and pictures
write.py     writes all of them, and prints the table
"""
