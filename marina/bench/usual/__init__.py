"""The usual way to serve a text classifier with TorchServe, as what to compare with.

handler.py   after the pattern of TorchServe's Hugging Face example and the Neuron TorchServe tutorial
pack.py      traces a model at one shape and packs it as torch-model-archiver does
"""
