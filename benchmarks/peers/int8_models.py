# mypy: ignore-errors
"""Answers texts with the models that quantize.py made; it runs with the packages of int8.txt.

`load` returns a function from a list of texts to a list of answers. It puts the texts in order of their lengths and
computes them in batches of BATCH, each padded to its longest text. That is faster than one batch for all of them.
Except with sentence-transformers and fastembed, which have their own, tokenizing is that of the tokenizers library, and
heads are computed with numpy, so that little else than the library's graph takes time.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

MAX_LENGTH = 512
BATCH = 8


def load():
    """The model that the environment names, with PEER_LIBRARY, PEER_TASK, PEER_MODEL and PEER_THREADS."""
    library, task = os.environ["PEER_LIBRARY"], os.environ["PEER_TASK"]
    folder, threads = Path(os.environ["PEER_MODEL"]), int(os.environ["PEER_THREADS"])
    # optimum-intel installs it; its build for CUDA does not load beside torch's build for CPUs, and nothing needs it
    sys.modules["torchvision"] = None
    if library.startswith("st-"):
        return sentence_transformers(library.removeprefix("st-"), folder, threads)
    if library == "fastembed":
        return by_length(fastembed(folder, threads))
    tokenizer = tokenizer_of(folder)
    run = {"openvino": openvino, "ctranslate2": ctranslate2}.get(library, onnxruntime)(folder, threads, task)
    answers = {
        "sentence-embedding": embeddings,
        "text-classification": Labels(folder),
        "token-classification": Entities(folder),
    }[task]

    def answer(texts):
        encodings = tokenizer.encode_batch(texts)
        return answers(run(encodings), encodings, texts)

    return by_length(answer)


def answer_together(answer, inputs):
    """The answers to the inputs of several requests, each a text or a list of texts, computed together."""
    texts = [text for item in inputs for text in ([item] if isinstance(item, str) else item)]
    answers = iter(answer(texts))
    return [next(answers) if isinstance(item, str) else [next(answers) for _ in item] for item in inputs]


def by_length(answer):
    """The same function, which computes texts of like lengths together."""

    def answer_all(texts):
        answers = [None] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(texts), BATCH):
            places = order[start : start + BATCH]
            for i, result in zip(places, answer([texts[i] for i in places]), strict=True):
                answers[i] = result
        return answers

    return answer_all


def tokenizer_of(folder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(MAX_LENGTH)
    return tokenizer


def inputs_of(encodings, names):
    values = {
        "input_ids": [encoding.ids for encoding in encodings],
        "attention_mask": [encoding.attention_mask for encoding in encodings],
        "token_type_ids": [encoding.type_ids for encoding in encodings],
    }
    return {name: np.array(values[name], dtype=np.int64) for name in names}


def onnxruntime(folder, threads, _):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(folder / "int8.onnx", options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda encodings: session.run(None, inputs_of(encodings, names))[0]


def openvino(folder, threads, _):
    import openvino as ov

    options = openvino_options(threads)
    model = ov.Core().compile_model(folder / "openvino_model.xml", "CPU", options)
    names = [value.get_any_name() for value in model.inputs]
    request = model.create_infer_request()
    return lambda encodings: request.infer(inputs_of(encodings, names))[0]


def openvino_options(threads):
    # pinning would put the threads of every worker on the same first cores
    return {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}


def ctranslate2(folder, threads, task):
    import ctranslate2 as ct2
    from safetensors.numpy import load_file

    encoder = ct2.Encoder(str(folder), device="cpu", compute_type="int8", intra_threads=threads)
    head = load_file(folder / "head.safetensors")

    def run(encodings):
        ids = [[i for i, kept in zip(e.ids, e.attention_mask, strict=True) if kept] for e in encodings]
        output = encoder.forward_batch(ids)
        vectors = np.array(output.pooler_output if task == "text-classification" else output.last_hidden_state)
        return vectors @ head["classifier.weight"].T + head["classifier.bias"] if head else vectors

    return run


def embeddings(vectors, encodings, _):
    mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.float32)[..., None]
    means = (vectors * mask).sum(1) / mask.sum(1)
    return (means / np.linalg.norm(means, axis=1, keepdims=True)).tolist()


class Labels:
    """The most probable label of each text, and its probability."""

    def __init__(self, folder):
        self.labels = labels_of(folder)

    def __call__(self, logits, *_):
        scores = softmax(logits)
        best = scores.argmax(-1)
        return [{"label": self.labels[i], "score": float(row[i])} for i, row in zip(best.tolist(), scores, strict=True)]


class Entities:
    """The entities of each text: a word has the label of its first token, and neighbours with one label are joined."""

    def __init__(self, folder):
        self.labels = labels_of(folder)

    def __call__(self, logits, encodings, texts):
        scores = softmax(logits)
        best = scores.argmax(-1)
        return [self.entities(*row) for row in zip(best.tolist(), scores, encodings, texts, strict=True)]

    def entities(self, best, scores, encoding, text):
        entities, last_word, last_label = [], None, "O"
        for i, word in enumerate(encoding.word_ids):
            start, end = encoding.offsets[i]
            if word is None:
                continue
            if word == last_word:
                if last_label != "O":
                    entities[-1]["end"] = end
                continue
            label = self.labels[best[i]]
            if label != "O" and label == last_label:
                entities[-1]["end"] = end
            elif label != "O":
                score = float(scores[i, best[i]])
                entities.append({"entity_group": label, "score": score, "start": start, "end": end})
            last_word, last_label = word, label
        return [{**entity, "word": text[entity["start"] : entity["end"]]} for entity in entities]


def labels_of(folder):
    labels = json.loads((folder / "original.json").read_text()).get("id2label", {})
    return [labels[str(i)] for i in range(len(labels))]


def softmax(logits):
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def sentence_transformers(backend, folder, threads):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    if backend == "onnx":
        import onnxruntime as ort

        session_options = ort.SessionOptions()
        session_options.intra_op_num_threads = threads
        options = {"file_name": "onnx/model_qint8_avx512_vnni.onnx", "session_options": session_options}
        options["provider"] = "CPUExecutionProvider"
    else:
        options = {"file_name": "openvino_model_qint8_quantized.xml", "ov_config": openvino_options(threads)}
    model = SentenceTransformer(
        str(folder), backend=backend, device="cpu", model_kwargs=options, trust_remote_code=False
    )
    options = {"batch_size": BATCH, "show_progress_bar": False, "normalize_embeddings": True}
    return lambda texts: model.encode(texts, **options).tolist()


def fastembed(folder, threads):
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="peer",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf="peer"),
        dim=json.loads((folder / "original.json").read_text())["hidden_size"],
        model_file="int8.onnx",
    )
    model = TextEmbedding("peer", specific_model_path=str(folder), threads=threads)
    return lambda texts: [vector.tolist() for vector in model.embed(texts, batch_size=BATCH)]
