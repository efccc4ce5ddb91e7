"""A TorchServe handler as it is usually written for a TorchScript model of one shape.

After the pattern of TorchServe's Hugging Face example and the Neuron TorchServe tutorial: every text
is padded to max_length and every batch to batch_size.
"""

import json
from pathlib import Path

import torch
from transformers import AutoTokenizer
from ts.torch_handler.base_handler import BaseHandler

MAX_LENGTH = 128
BATCH_SIZE = 6


class UsualHandler(BaseHandler):
    def initialize(self, context):
        self.manifest = context.manifest
        folder = Path(context.system_properties["model_dir"])
        self.model = torch.jit.load(folder / self.manifest["model"]["serializedFile"])
        self.model.eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.labels = json.loads((folder / "labels.json").read_text())
        self.initialized = True

    def preprocess(self, requests):
        inputs = []
        for request in requests:
            text = json.loads(request.get("data") or request.get("body"))["inputs"]
            inputs.append(
                self.tokenizer(text, max_length=MAX_LENGTH, padding="max_length", truncation=True, return_tensors="pt")
            )
        names = ("input_ids", "attention_mask", "token_type_ids")
        batch = [torch.cat([one[name] for one in inputs]) for name in names]
        if len(requests) < BATCH_SIZE:
            empty = torch.zeros(BATCH_SIZE - len(requests), MAX_LENGTH, dtype=torch.long)
            batch = [torch.cat([tensor, empty]) for tensor in batch]
        return batch, len(requests)

    def inference(self, inputs):
        batch, count = inputs
        with torch.no_grad():
            return self.model(*batch)[0][:count]

    def postprocess(self, outputs):
        return [{"label": self.labels[row.argmax().item()]} for row in outputs]
