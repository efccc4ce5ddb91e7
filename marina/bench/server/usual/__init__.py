"""The usual way to serve a text classifier with TorchServe, as what to compare with.

handler.py   after the pattern of TorchServe's Hugging Face example and the Neuron TorchServe tutorial
nothing.py   a handler that does nothing, for what a worker of TorchServe takes by itself
pack.py      traces a model at one shape, and packs handlers as torch-model-archiver does
"""
