"""mosec with its dynamic batching, after its documentation's page "Configuration", around the models of int8_models.py.

`forward` receives a list if max_batch_size is more than 1; a batch waits for at most max_wait_time milliseconds.
"""

import os

import orjson
from int8_models import load
from mosec import Server, Worker

BATCH = 32
WAIT_MS = 1


class Model(Worker):
    def __init__(self):
        super().__init__()
        self.answer = load()

    def forward(self, requests):
        lists = [request["inputs"] for request in requests]
        texts = [text for item in lists for text in ([item] if isinstance(item, str) else item)]
        answers = iter(self.answer(texts))
        return [next(answers) if isinstance(item, str) else [next(answers) for _ in item] for item in lists]

    def serialize(self, data):
        return orjson.dumps(data)

    def deserialize(self, data):
        return orjson.loads(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, num=int(os.environ["PEER_WORKERS"]), max_batch_size=BATCH, max_wait_time=WAIT_MS)
    server.run()
