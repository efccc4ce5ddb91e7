"""Other ways to serve the same models on the same cores, asked by the same generator: `make bench-peers`.

peers.py             each peer: its packages, how it is started and asked, and what its documentation says
run.py               installs them in virtual environments of their own, measures all in turns, prints the ratios
fastapi_server.py    FastAPI with a transformers pipeline
litserve_server.py   LitServe with its batching
requirements/        the packages of each
"""
