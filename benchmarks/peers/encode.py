"""sentence-transformers' `encode`, after its documentation's page "Speeding up Inference".

Its command is BACKEND MODEL TEXTS FOLDER: "torch" for float32, or "openvino" for int8 by static quantization, which is
kept in FOLDER. It prints a line when the model is loaded, and then, for each line that it reads, the seconds to encode
all texts.
"""

import json
import os
import sys
import time
from pathlib import Path

QUANTIZED = "openvino_model_qint8_quantized.xml"
SAMPLES = 300  # as sentence-transformers' own export


def quantize(source, folder, texts):
    """As `export_static_quantized_openvino_model`, with these texts in place of a data set from the hub."""
    from datasets import Dataset
    from optimum.intel import OVConfig, OVQuantizationConfig, OVQuantizer
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(source, backend="openvino", device="cpu", trust_remote_code=False)
    model.save_pretrained(str(folder))
    encoded = model.tokenizer(texts[:SAMPLES], padding="max_length", max_length=256, truncation=True)
    quantizer = OVQuantizer(model.transformers_model)
    ov_config = OVConfig(quantization_config=OVQuantizationConfig(num_samples=SAMPLES))
    calibration = Dataset.from_dict(dict(encoded))
    quantizer.quantize(calibration, save_directory=str(folder / "quantized"), ov_config=ov_config)
    for suffix in (".xml", ".bin"):
        quantized_file = folder / "quantized" / "openvino" / f"openvino_model{suffix}"
        quantized_file.replace((folder / "openvino" / QUANTIZED).with_suffix(suffix))


def main(backend, source, texts_file, folder):
    # optimum-intel installs it; its build for CUDA does not load beside torch's build for CPUs, and nothing needs it
    sys.modules["torchvision"] = None
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
            quantize(source, home, texts)
        model_kwargs = {"file_name": QUANTIZED, "ov_config": {"INFERENCE_NUM_THREADS": threads}}
        model = SentenceTransformer(
            str(home), backend="openvino", device="cpu", model_kwargs=model_kwargs, trust_remote_code=False
        )
    model.encode(texts[:64])
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model.encode(texts, show_progress_bar=False)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
