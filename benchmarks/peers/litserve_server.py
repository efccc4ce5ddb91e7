"""LitServe with its batching, after its documentation's pages "LitAPI" and "Batching".

`predict` receives a list if max_batch_size is more than 1, a batch waits for at most batch_timeout, and
workers_per_device is the number of processes that load the model.
"""

import os
import sys

import litserve
import torch
from transformers import pipeline

BATCH = 32
WAIT_S = 0.005


class Classifier(litserve.LitAPI):
    def setup(self, device):
        torch.set_num_threads(int(os.environ["PEER_THREADS"]))
        self.pipe = pipeline(
            "text-classification", model=os.environ["PEER_MODEL"], device=device, trust_remote_code=False
        )

    def decode_request(self, request):
        return request["inputs"]

    def predict(self, texts):
        return self.pipe(texts, batch_size=len(texts))

    def encode_response(self, answer):
        return answer


if __name__ == "__main__":
    api = Classifier(max_batch_size=BATCH, batch_timeout=WAIT_S)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=int(os.environ["PEER_WORKERS"]))
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
