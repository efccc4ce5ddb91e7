# mypy: ignore-errors
"""Makes a model in int8 as each library's documentation says: `quantize.py LIBRARY TASK SOURCE FOLDER TEXTS`.

It runs with the packages of the peer; encode.py uses its function for OpenVINO with the packages of encode.txt. TEXTS
is a JSON file with texts like those that the model will read; static quantization takes the ranges of the activations
from them.

    onnxruntime            "Quantize ONNX Models": dynamic, per channel
    infinity               optimum-onnx, "Quantization": dynamic, for AVX-512 VNNI
    openvino               optimum-intel, "Optimization": OVQuantizer
    ctranslate2            its page "Transformers": ct2-transformers-converter --quantization int8
    st-openvino, st-onnx   sentence-transformers, "Speeding up Inference": backend="openvino" and "onnx"
    fastembed              its page "Supporting Custom Models", with the model of onnxruntime
"""

import json
import shutil
import sys
from pathlib import Path

# optimum-intel installs it; its build for CUDA does not load beside torch's build for CPUs, and nothing needs it
sys.modules["torchvision"] = None

SAMPLES = 300  # as sentence-transformers' own export
LENGTH = 128
# of the original that int8_models.py reads, and their names; ctranslate2 has a config.json of its own
FILES = {"tokenizer.json": "tokenizer.json", "config.json": "original.json"}


def onnx(task, source, folder):
    from optimum.onnxruntime import (
        ORTModelForFeatureExtraction,
        ORTModelForSequenceClassification,
        ORTModelForTokenClassification,
    )

    classes = {
        "sentence-embedding": ORTModelForFeatureExtraction,
        "text-classification": ORTModelForSequenceClassification,
        "token-classification": ORTModelForTokenClassification,
    }
    classes[task].from_pretrained(source, export=True, trust_remote_code=False).save_pretrained(folder)
    return folder / "model.onnx"


def onnxruntime(task, source, folder, _texts):
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model, types = onnx(task, source, folder), {"DefaultTensorType": TensorProto.FLOAT}
    quantize_dynamic(model, folder / "int8.onnx", per_channel=True, weight_type=QuantType.QInt8, extra_options=types)


def infinity(task, source, folder, _texts):
    from optimum.onnxruntime import ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig

    quantizer = ORTQuantizer(onnx(task, source, folder))
    quantizer.quantize(AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=True), folder)
    copy_tokenizer(source, folder)


def fastembed(task, source, folder, texts):
    onnxruntime(task, source, folder, texts)
    copy_tokenizer(source, folder)


def copy_tokenizer(source, folder):
    """Copy what transformers and fastembed read beside a graph: the tokenizer and its settings, and config.json."""
    for path in (*source.glob("*token*.json"), source / "config.json"):
        shutil.copy(path, folder)


def openvino(task, source, folder, texts, length=LENGTH):
    from datasets import Dataset
    from optimum.intel import (
        OVConfig,
        OVModelForFeatureExtraction,
        OVModelForSequenceClassification,
        OVModelForTokenClassification,
        OVQuantizationConfig,
        OVQuantizer,
    )
    from transformers import AutoTokenizer

    classes = {
        "sentence-embedding": OVModelForFeatureExtraction,
        "text-classification": OVModelForSequenceClassification,
        "token-classification": OVModelForTokenClassification,
    }
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    encoded = tokenizer(texts[:SAMPLES], padding="max_length", max_length=length, truncation=True)
    model = classes[task].from_pretrained(source, export=True, trust_remote_code=False)
    OVQuantizer(model).quantize(
        Dataset.from_dict(dict(encoded)),
        save_directory=str(folder),
        ov_config=OVConfig(quantization_config=OVQuantizationConfig(num_samples=SAMPLES)),
    )


def ctranslate2(_task, source, folder, _texts):
    from ctranslate2.converters import TransformersConverter
    from safetensors.numpy import load_file, save_file

    TransformersConverter(str(source)).convert(str(folder), quantization="int8", force=True)
    # its encoder ends before the head
    weights = load_file(source / "model.safetensors")
    head = {name: value for name, value in weights.items() if name.startswith("classifier.")}
    save_file(head, folder / "head.safetensors")


def st_openvino(task, source, folder, texts, length=LENGTH):
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(source), backend="openvino", device="cpu", trust_remote_code=False).save_pretrained(
        str(folder)
    )
    work = folder / "quantized"
    work.mkdir()
    openvino(task, source, work, texts, length)
    for suffix in (".xml", ".bin"):
        (work / f"openvino_model{suffix}").replace(folder / "openvino" / f"openvino_model_qint8_quantized{suffix}")


def st_onnx(_task, source, folder, _texts):
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    model = SentenceTransformer(str(source), backend="onnx", device="cpu", trust_remote_code=False)
    model.save_pretrained(str(folder))
    export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(folder))


LIBRARIES = {
    "onnxruntime": onnxruntime,
    "infinity": infinity,
    "openvino": openvino,
    "ctranslate2": ctranslate2,
    "st-openvino": st_openvino,
    "st-onnx": st_onnx,
    "fastembed": fastembed,
}


def main(library, task, source, folder, texts):
    source, folder = Path(source), Path(folder)
    LIBRARIES[library](task, source, folder, json.loads(Path(texts).read_text()))
    for name, copy in FILES.items():
        shutil.copy(source / name, folder / copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
