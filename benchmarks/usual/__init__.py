"""The usual way to serve a text classifier with TorchServe, for comparison.

handler.py   follows TorchServe's Hugging Face example and the Neuron TorchServe tutorial
nothing.py   a handler that does nothing, to measure the cost of a TorchServe worker by itself
pack.py      traces a model at one shape, and packs handlers with torch-model-archiver
"""
