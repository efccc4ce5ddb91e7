"""A typical TorchServe handler for a TorchScript model of one shape.

It follows TorchServe's Hugging Face example and the Neuron TorchServe tutorial: every text is padded
to max_length and every batch to batch_size, both of which setup_config.json sets.
"""

import json
from pathlib import Path

import torch
from transformers import AutoTokenizer
from ts.torch_handler.base_handler import BaseHandler


class UsualHandler(BaseHandler):
    def initialize(self, context):
        self.manifest = context.manifest
        folder = Path(context.system_properties["model_dir"])
        self.model = torch.jit.load(folder / self.manifest["model"]["serializedFile"])
        self.model.eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        setup = json.loads((folder / "setup_config.json").read_text())
        self.labels, self.max_length, self.batch_size = setup["labels"], setup["max_length"], setup["batch_size"]
        self.initialized = True

    def preprocess(self, requests):
        inputs = []
        for request in requests:
            text = json.loads(request.get("data") or request.get("body"))["inputs"]
            inputs.append(
                self.tokenizer(
                    text, max_length=self.max_length, padding="max_length", truncation=True, return_tensors="pt"
                )
            )
        names = ("input_ids", "attention_mask", "token_type_ids")
        batch = [torch.cat([text_inputs[name] for text_inputs in inputs]) for name in names]
        if len(requests) < self.batch_size:
            empty = torch.zeros(self.batch_size - len(requests), self.max_length, dtype=torch.long)
            batch = [torch.cat([tensor, empty]) for tensor in batch]
        return batch, len(requests)

    def inference(self, inputs):
        batch, count = inputs
        with torch.no_grad():
            return self.model(*batch)[0][:count]

    def postprocess(self, outputs):
        return [{"label": self.labels[row.argmax().item()]} for row in outputs]
