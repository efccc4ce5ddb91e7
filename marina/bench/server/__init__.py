"""What is measured. Needs the load and the values of results.

endpoint.py          a served model: where it is, what is known of it, and how it is measured
server_metrics.py    what the server's own metrics say of the time of a load
benchmark_server.py  a TorchServe of the benchmark's own, which serves one model at a time
bare_graphs.py       the graphs of a model without a server: the most that serving could reach
bert_base.py         a model of BERT-base's size
usual/               the usual TorchServe handler, to compare with, and one that does nothing
"""
