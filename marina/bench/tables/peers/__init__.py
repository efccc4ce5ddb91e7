"""Other ways to serve the same models on the same cores, with the same generator: `marina bench peers`.

settings.py          each peer: its packages, how it is started, what it is sent, and what its documentation says
process.py           installs a peer in a virtual environment of its own, and runs its server
run.py               measures the peers, the usual handler and Marina in interleaved rounds
fastapi_server.py    FastAPI with a transformers pipeline
litserve_server.py   LitServe with its batching
*.txt                the packages of each
"""
