# mypy: ignore-errors
"""Writes a BERT encoder in llama.cpp's format, with weights in 8 bits (Q8_0): `gguf_model.py SOURCE FOLDER`.

It runs with the packages of llama.txt, and writes what llama.cpp's convert_hf_to_gguf.py writes for such a model, as no
package brings that script.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

SPECIAL = {"bos": "[CLS]", "eos": "[SEP]", "sep": "[SEP]", "unk": "[UNK]", "pad": "[PAD]", "mask": "[MASK]"}


def main(source, folder):
    source = Path(source)
    config = json.loads((source / "config.json").read_text())
    writer = gguf.GGUFWriter(f"{folder}/model.gguf", "bert")
    writer.add_name("peer")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    add_vocabulary(writer, json.loads((source / "tokenizer.json").read_text()), config["type_vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, weights in load_file(source / "model.safetensors").items():
        if "pooler" not in name and "position_ids" not in name:
            add_tensor(writer, names.get_name(name, try_suffixes=(".weight", ".bias")), weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer, tokenizer, types):
    ids = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"]}
    tokens = sorted(ids, key=ids.get)
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(types)
    writer.add_token_list([written(token, special).encode() for token in tokens])
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if token in special else kinds.NORMAL for token in tokens])
    for kind, token in SPECIAL.items():
        getattr(writer, f"add_{kind}_token_id")(ids[token])


def written(token, special):
    """A token of WordPiece as llama.cpp writes it: the first of a word is marked, rather than the others."""
    if token in special or (token.startswith("[") and token.endswith("]")):
        return token
    return token[2:] if token.startswith("##") else f"\N{LOWER ONE EIGHTH BLOCK}{token}"


def add_tensor(writer, name, weights):
    if weights.ndim == 2 and "position" not in name and "token_types" not in name:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
