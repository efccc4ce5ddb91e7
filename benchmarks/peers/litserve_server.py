"""LitServe with its batching, after its documentation's pages "LitAPI" and "Batching", around int8_models.py.

`predict` receives a list if max_batch_size is more than 1, a batch waits for at most batch_timeout, and
workers_per_device is the number of processes that load the model.
"""

import os
import sys

import litserve
from int8_models import answer_together, load

BATCH = 32
WAIT_S = 0.001


class Model(litserve.LitAPI):
    def setup(self, _device):
        self.answer = load()

    def decode_request(self, request):
        return request["inputs"]

    def predict(self, inputs):
        return answer_together(self.answer, inputs)

    def encode_response(self, answer):
        return answer


if __name__ == "__main__":
    api = Model(max_batch_size=BATCH, batch_timeout=WAIT_S)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=int(os.environ["PEER_WORKERS"]))
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
