"""sentence-transformers' `encode`, after its documentation's page "Speeding up Inference".

Its command is BACKEND MODEL TEXTS FOLDER: "torch" for float32, or "openvino" for int8 by static quantization, which is
kept in FOLDER. It tries sizes of batches, and prints "ready" with the fastest. Then, for each line that it reads, it
prints the seconds to encode all texts.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

from quantize import st_openvino

QUANTIZED = "openvino_model_qint8_quantized.xml"
BATCH_SIZES, TRIAL_TEXTS = (4, 8, 16, 32, 64), 1_000


def main(backend, source, texts_file, folder):
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
            st_openvino("sentence-embedding", Path(source), home, texts)
        model_kwargs = {"file_name": QUANTIZED, "ov_config": {"INFERENCE_NUM_THREADS": threads}}
        model = SentenceTransformer(
            str(home), backend="openvino", device="cpu", model_kwargs=model_kwargs, trust_remote_code=False
        )
    model.encode(texts[:64])
    batch_size = min(BATCH_SIZES, key=lambda size: encode_seconds(model, texts[:TRIAL_TEXTS], size))
    print("ready", batch_size, flush=True)
    for _ in sys.stdin:
        print(encode_seconds(model, texts, batch_size), flush=True)


def encode_seconds(model, texts, batch_size):
    start = time.perf_counter()
    model.encode(texts, batch_size=batch_size, show_progress_bar=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
