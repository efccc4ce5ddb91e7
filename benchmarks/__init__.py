"""What measures and publishes this project's own figures, on top of the library `marina.bench`; no part of the product.

kinds.py          the tables by name: those here, and those of marina.bench
tables/           published tables, the cost of serving, hosts, packed graphs, jobs in bulk
peers/            other ways to serve, each in its own virtual environment
usual/            the usual TorchServe handler, for comparison, and one that does nothing
verify/           judges the predictions of `marina plan`
random_models.py  models of BERT-base's size and of a tiny one, with random weights
ray_cluster.py    a Ray cluster on this machine
compare_wrk.py    compares `marina bench` with wrk
"""
