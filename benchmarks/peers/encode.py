"""sentence-transformers' `encode`, after its documentation's page "Speeding up Inference".

Its command is BACKEND MODEL TEXTS FOLDER BATCH: "torch" for float32, or "openvino" for int8 by static quantization,
which is kept in FOLDER. If BATCH is 0, it finds the fastest size of batches. It prints "ready" with the size. Then, for
each line that it reads, it prints the seconds to encode all texts.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

from quantize import st_openvino

QUANTIZED = "openvino_model_qint8_quantized.xml"
LENGTH = 256  # of the longest texts
BATCH_SIZES, TRIAL_TEXTS, TRIALS = (4, 8, 16, 32, 64), 1_000, 2


def main(backend, source, texts_file, folder, batch):
    import torch
    from sentence_transformers import SentenceTransformer

    threads = int(os.environ["PEER_THREADS"])
    torch.set_num_threads(threads)
    texts = json.loads(Path(texts_file).read_text())
    if backend == "torch":
        model = SentenceTransformer(source, device="cpu", trust_remote_code=False)
    else:
        home = Path(folder)
        if not (home / "openvino" / QUANTIZED).exists():
            shutil.rmtree(home, ignore_errors=True)
            st_openvino("sentence-embedding", Path(source), home, texts, LENGTH)
        model_kwargs = {"file_name": QUANTIZED, "ov_config": {"INFERENCE_NUM_THREADS": threads}}
        model = SentenceTransformer(
            str(home), backend="openvino", device="cpu", model_kwargs=model_kwargs, trust_remote_code=False
        )
    model.encode(texts[:64])
    batch_size = int(batch) or fastest_batch_size(model, texts[:TRIAL_TEXTS])
    print("ready", batch_size, flush=True)
    for _ in sys.stdin:
        print(encode_seconds(model, texts, batch_size), flush=True)


def fastest_batch_size(model, texts):
    seconds = [(encode_seconds(model, texts, size), size) for _ in range(TRIALS) for size in BATCH_SIZES]
    return min(seconds)[1]


def encode_seconds(model, texts, batch_size):
    start = time.perf_counter()
    model.encode(texts, batch_size=batch_size, show_progress_bar=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
