"""Proofs for the Neuron engines that need no device. Each writes a file from which `make docs` makes a table.

python -m tests.proofs.xla     lowers every model as torch-neuronx does (Inf2, Trn1), with PyPI's torch_xla
python -m tests.proofs.inf1    compares the operators of every model with those that AWS lists for Inf1
python -m tests.proofs.sdk     compiles with the real SDK, where AWS's package index can be reached
"""
