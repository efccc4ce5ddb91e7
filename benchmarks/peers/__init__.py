"""Other ways to serve the same models on the same cores, with the same generator: `python -m benchmarks peers`.

settings.py          each peer: its packages, start command and requests, with a quote of its documentation
process.py           installs a peer in its own virtual environment, and runs its server
run.py               measures the peers, the usual handler and Marina in interleaved rounds
fastapi_server.py    FastAPI with a transformers pipeline
litserve_server.py   LitServe with its batching
*.txt                the packages of each peer
"""
