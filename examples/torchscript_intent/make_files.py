"""Makes two TorchScript files from the demonstration model `ava-intent`, for teams that have no Hugging Face folder.

preprocess.pt   on the CPU: texts to the five inputs of the model, with a WordPiece tokenizer in TorchScript
model.pt        those inputs to logits: input_ids, attention_mask (float16), position_ids, valid_length, token_type_ids
                (int32)

Source of the five inputs and their dtypes: "How Amazon Search reduced ML inference costs by 85% with AWS Inferentia",
AWS Machine Learning Blog, 2022. Run it from the repository root:

    python -m examples.torchscript_intent.make_files
"""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

SOURCE = Path("build/training/ava-intent")
TARGET = Path("build/training/torchscript-intent")
MAX_LENGTH = 128
# letters of Western European languages that are a plain letter with an accent
ACCENTED = [chr(code) for code in range(0xC0, 0x100) if len(unicodedata.normalize("NFD", chr(code))) == 2]
LONGEST_WORD = 100  # characters; longer words are unknown, as in the model's own tokenizer


class Preprocess(nn.Module):
    """BERT's tokenizer for text in Latin letters: lower case without accents, then the longest pieces of words first.

    Strings of TorchScript are bytes, so that letters of other scripts are unknown pieces.

    Args:
        vocabulary: the number of each piece.
    """

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.unknown = vocabulary["[UNK]"]
        self.first = vocabulary["[CLS]"]
        self.last = vocabulary["[SEP]"]
        self.plain = {letter: unicodedata.normalize("NFD", letter)[0] for letter in ACCENTED}
        self.max_length = MAX_LENGTH
        self.longest_word = LONGEST_WORD

    def words(self, text: str) -> list[str]:
        words: list[str] = []
        word = ""
        for letter, plain in self.plain.items():
            text = text.replace(letter, plain)
        for character in text.lower():
            if character.isalnum():
                word += character
                continue
            if len(word) > 0:
                words.append(word)
                word = ""
            if not character.isspace():
                words.append(character)
        if len(word) > 0:
            words.append(word)
        return words

    def pieces(self, word: str) -> list[int]:
        if len(word) > self.longest_word:
            return [self.unknown]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = len(word)
            number = -1
            while end > start and number < 0:
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self.vocabulary:
                    number = self.vocabulary[piece]
                else:
                    end -= 1
            if number < 0:
                return [self.unknown]
            pieces.append(number)
            start = end
        return pieces

    def forward(self, texts: list[str]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """For n texts and the m tokens of the longest: five tensors of shape (n, m), the fourth of shape (n,)."""
        rows: list[list[int]] = []
        longest = 0
        for text in texts:
            row = [self.first]
            for word in self.words(text):
                row += self.pieces(word)
            row = row[: self.max_length - 1]
            row.append(self.last)
            rows.append(row)
            longest = max(longest, len(row))
        input_ids = torch.zeros(len(rows), longest, dtype=torch.int64)
        attention_mask = torch.zeros(len(rows), longest, dtype=torch.float16)
        valid_length = torch.zeros(len(rows), dtype=torch.int64)
        for number, row in enumerate(rows):
            input_ids[number, : len(row)] = torch.tensor(row)
            attention_mask[number, : len(row)] = 1
            valid_length[number] = len(row)
        position_ids = torch.arange(longest).unsqueeze(0).repeat(len(rows), 1)
        token_type_ids = torch.zeros(len(rows), longest, dtype=torch.int32)
        return input_ids, attention_mask, position_ids, valid_length, token_type_ids


class Intent(nn.Module):
    """The demonstration model with the five inputs; only tokens within the valid length are attended to."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        valid_length: Tensor,
        token_type_ids: Tensor,
    ) -> Tensor:
        bert = self.model.bert
        vectors = bert.embeddings(
            input_ids=input_ids, position_ids=position_ids, token_type_ids=token_type_ids.to(torch.int64)
        )
        within = attention_mask * (position_ids < valid_length.unsqueeze(1)).to(attention_mask.dtype)
        outside = (1 - within).float() * -10_000.0
        hidden = vectors
        for layer in bert.encoder.layer:
            hidden = layer(hidden, outside[:, None, None, :])
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return self.model.classifier(bert.pooler(hidden))


def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(SOURCE, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(
        SOURCE, trust_remote_code=False, attn_implementation="eager"
    ).eval()
    preprocess = torch.jit.script(Preprocess(tokenizer.get_vocab()))
    with torch.no_grad():
        inputs = preprocess(["change company address", "How do I download the latest version?"])
        traced = torch.jit.trace(Intent(model).eval(), inputs, check_trace=False)
    partial = TARGET.with_name(f"{TARGET.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    torch.jit.save(preprocess, str(partial / "preprocess.pt"))
    torch.jit.save(traced, str(partial / "model.pt"))
    shutil.rmtree(TARGET, ignore_errors=True)
    partial.rename(TARGET)
    print(f"saved {TARGET}")


if __name__ == "__main__":
    main()
