"""The host `direct`: one process that listens, queues and manages, and starts the worker processes. No Java.

Enters: connections, and archives to serve. Leaves: answers, logs and metrics. Workers are in `handlers/worker/hosts`;
nothing here knows a task or an engine.

queue.py           the requests of a version that wait and are computed: everything that changes their states is here
worker.py          one worker process, and calls to it
workers.py         the workers of a version, which are started again when they end
version.py         one archive that is served: its queue and its workers
models.py          the versions of all models, and which of them answers
management.py      the part of TorchServe's management API that Marina's commands use
connections.py     connections over HTTP: slow and hostile clients are held here
bodies.py          the memory that bodies of requests have
front.py           what comes in over HTTP, on each port
grpc_front.py      what comes in over gRPC
open_inference.py  the messages of the Open Inference Protocol
pages.py           the page at /docs, and /openapi.json
metrics.py         the counters of workers and queues, for Prometheus
process.py         starts the process, from outside
host.py            what the rest of Marina knows of all this
"""
