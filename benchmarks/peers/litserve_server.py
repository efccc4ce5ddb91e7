"""LitServe with its batching, after its documentation's pages "LitAPI" and "Batching".

`predict` receives a list if max_batch_size is more than 1, a batch waits for at most batch_timeout, and
workers_per_device is the number of processes that load the model: a transformers pipeline, or with PEER_LIBRARY a model
of int8_models.py.
"""

import os
import sys

import litserve

BATCH = 32
WAIT_S = 0.001


def load_pipeline(device):
    import torch
    from transformers import pipeline

    torch.set_num_threads(int(os.environ["PEER_THREADS"]))
    pipe = pipeline("text-classification", model=os.environ["PEER_MODEL"], device=device, trust_remote_code=False)
    return lambda texts: pipe(texts, batch_size=len(texts))


class Classifier(litserve.LitAPI):
    def setup(self, device):
        if os.environ["PEER_LIBRARY"]:
            from int8_models import load

            self.answer = load()
        else:
            self.answer = load_pipeline(device)

    def decode_request(self, request):
        return request["inputs"]

    def predict(self, inputs):
        texts = [text for item in inputs for text in ([item] if isinstance(item, str) else item)]
        answers = iter(self.answer(texts))
        return [next(answers) if isinstance(item, str) else [next(answers) for _ in item] for item in inputs]

    def encode_response(self, answer):
        return answer


if __name__ == "__main__":
    api = Classifier(max_batch_size=BATCH, batch_timeout=WAIT_S)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=int(os.environ["PEER_WORKERS"]))
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
