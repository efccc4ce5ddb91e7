"""mosec with its dynamic batching, after its documentation's page "Configuration", around the models of int8_models.py.

`forward` receives a list if max_batch_size is more than 1; a batch waits for at most max_wait_time milliseconds.
"""

import os

import orjson
from int8_models import answer_together, load
from mosec import Server, Worker

BATCH = 32
WAIT_MS = 1


class Model(Worker):
    def __init__(self):
        super().__init__()
        self.answer = load()

    def forward(self, requests):
        return answer_together(self.answer, [request["inputs"] for request in requests])

    def serialize(self, data):
        return orjson.dumps(data)

    def deserialize(self, data):
        return orjson.loads(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, num=int(os.environ["PEER_WORKERS"]), max_batch_size=BATCH, max_wait_time=WAIT_MS)
    server.run()
