"""llama.cpp's server of embeddings, from the package xllamacpp: `llama_server.py PORT`.

The model is that of gguf_model.py. A slot for each of 32 texts, with continuous batching, which is its default.
"""

import os
import sys
import threading

import xllamacpp

SLOTS, TOKENS = 32, 512

if __name__ == "__main__":
    threads = int(os.environ["PEER_THREADS"])
    parameters = xllamacpp.CommonParams()
    parameters.model.path = f"{os.environ['PEER_MODEL']}/model.gguf"
    parameters.embedding = True
    parameters.hostnames, parameters.port = ["127.0.0.1"], int(sys.argv[1])
    parameters.n_parallel, parameters.n_ctx = SLOTS, SLOTS * TOKENS
    parameters.n_batch = parameters.n_ubatch = 4 * TOKENS
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    threading.Event().wait()
