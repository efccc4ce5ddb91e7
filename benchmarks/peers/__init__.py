"""Other ways to serve the same models on the same cores, with the same generator: `python -m benchmarks peers`.

settings.py          each peer: its packages, start command and requests, with a quote of its documentation
process.py           installs a peer in its own virtual environment, prepares its model, and runs its server
table.py             measures the peers and Marina in interleaved rounds
report.py            the tables and the picture of what was measured
agreement.py         compares their answers with those of the original model
fastapi_server.py    FastAPI with a transformers pipeline
litserve_server.py   LitServe with its batching
mosec_server.py      mosec with its batching
llama_server.py      llama.cpp's server of embeddings
quantize.py          models in int8, by the tools of each library; int8_models.py answers with them
gguf_model.py        a model in llama.cpp's format
encode.py            sentence-transformers in bulk, for `python -m benchmarks bulk`
*.txt                the packages of each peer
"""
