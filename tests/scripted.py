"""Small TorchScript modules with inputs of several kinds, as users bring them."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.conftest import save_tokenizer

WIDTH = 16
VOCABULARY = 200


class Encoder(nn.Module):  # type: ignore[misc]
    """Token vectors that depend on every token of the row, and on nothing behind its end."""

    def __init__(self, labels: int = 3) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        self.positions = nn.Embedding(64, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, labels)

    def vectors(self, ids: Tensor, types: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        hidden = self.words(ids) + self.types(types) + self.positions(positions)
        scores = hidden @ hidden.transpose(1, 2) / 4.0 + (1.0 - mask)[:, None, :] * -10000.0
        return torch.tanh(self.mix(scores.softmax(-1) @ hidden) + hidden)


class FiveInputs(Encoder):
    """The inputs of Amazon Search's model, in its order and with its dtypes."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        valid_length: Tensor,
        token_type_ids: Tensor,
    ) -> Tensor:
        if attention_mask.dtype != torch.float16 or token_type_ids.dtype != torch.int32:
            raise ValueError("not the dtypes of this module")
        within = (position_ids < valid_length.unsqueeze(1)).float() * attention_mask.float()
        hidden = self.vectors(input_ids, token_type_ids.long(), position_ids, within)
        return self.head((hidden * within.unsqueeze(-1)).sum(1) / valid_length.unsqueeze(1))


class MaskFirst(Encoder):
    """Other orders, and two outputs: a score for each label, and a vector for each token."""

    def forward(self, mask: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        types, positions = torch.zeros_like(ids), torch.arange(ids.shape[1]).unsqueeze(0).expand_as(ids)
        hidden = self.vectors(ids, types, positions, mask.float())
        return self.head(hidden[:, 0]), hidden


class ByName(Encoder):
    """Outputs by name."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        types, positions = torch.zeros_like(input_ids), torch.arange(input_ids.shape[1]).unsqueeze(0)
        hidden = self.vectors(input_ids, types, positions.expand_as(input_ids), attention_mask.float())
        return {"tags": self.head(hidden), "vectors": hidden}


class Weighted(Encoder):
    """A number for each token, and one for the text, which no tokenizer gives."""

    def forward(self, input_ids: Tensor, weights: Tensor, language: Tensor, attention_mask: Tensor) -> Tensor:
        types = language.unsqueeze(1).expand_as(input_ids)
        positions = torch.zeros_like(input_ids)
        hidden = self.vectors(input_ids, types, positions, attention_mask.float())
        weighted = weights * attention_mask.float()
        return self.head((hidden * weighted.unsqueeze(-1)).sum(1) / weighted.sum(1, keepdim=True))


class Letters(nn.Module):  # type: ignore[misc]
    """Two fields of all instances to the inputs of `Weighted`: a token for each letter, weights by field."""

    def forward(self, title: list[str], body: list[str]) -> dict[str, Tensor]:
        longest = 1
        for number in range(len(title)):
            longest = max(longest, 1 + len(title[number]) + len(body[number]))
        ids = torch.full((len(title), longest), 7, dtype=torch.int64)
        weights = torch.full((len(title), longest), 0.5)
        mask = torch.zeros(len(title), longest, dtype=torch.float16)
        language = torch.zeros(len(title), dtype=torch.int64)
        for number in range(len(title)):
            text = title[number] + body[number]
            ids[number, 0] = 2
            mask[number, : 1 + len(text)] = 1
            for place in range(len(text)):
                ids[number, 1 + place] = 3 + ord(text[place]) % 190
                weights[number, 1 + place] = 2.0 if place < len(title[number]) else 0.25
            language[number] = len(title[number]) % 2
        return {"input_ids": ids, "weights": weights, "language": language, "attention_mask": mask}


class OneText(nn.Module):  # type: ignore[misc]
    """The inputs of `MaskFirst` for one text, padded to 24 tokens; it fails on a text with a semicolon."""

    def forward(self, text: str) -> tuple[Tensor, Tensor]:
        if text.find(";") >= 0:
            raise ValueError("a semicolon")
        ids = torch.zeros(24, dtype=torch.int64)
        mask = torch.zeros(24, dtype=torch.int64)
        for place in range(min(24, len(text))):
            ids[place] = 1 + ord(text[place]) % 190
            mask[place] = 1
        return mask, ids


class Skips(nn.Module):  # type: ignore[misc]
    """The inputs of `MaskFirst` by order, but none for texts that start with a hash."""

    def forward(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        kept: list[str] = []
        longest = 1
        for text in texts:
            if text.find("#") != 0:
                kept.append(text)
                longest = max(longest, len(text))
        ids = torch.zeros(len(kept), longest, dtype=torch.int64)
        mask = torch.zeros(len(kept), longest, dtype=torch.int64)
        for number, text in enumerate(kept):
            for place in range(len(text)):
                ids[number, place] = 1 + ord(text[place]) % 190
                mask[number, place] = 1
        return mask, ids


class Backwards(Skips):
    """With the padding before the tokens."""

    def forward(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        longest = 1
        for text in texts:
            longest = max(longest, len(text))
        mask = torch.zeros(len(texts), longest, dtype=torch.int64)
        for number, text in enumerate(texts):
            mask[number, longest - len(text) :] = 1
        return mask, mask + 1


class Unmarked(Skips):
    """Padding without a mask."""

    def forward(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        longest = 1
        for text in texts:
            longest = max(longest, len(text))
        return torch.ones(len(texts), longest, dtype=torch.int64), torch.ones(len(texts), longest, dtype=torch.int64)


class Square(Encoder):
    """A vector for the text with as many numbers as the longest shape has tokens, and a hidden output before it."""

    def forward(self, attention_mask: Tensor, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        types, positions = torch.zeros_like(input_ids), torch.arange(input_ids.shape[1]).unsqueeze(0)
        hidden = self.vectors(input_ids, types, positions.expand_as(input_ids), attention_mask.float())
        return hidden, hidden[:, 0]


class Uneven(nn.Module):  # type: ignore[misc]
    """Tensors of different lengths, of which one cannot be of tokens."""

    def forward(self, text: list[str]) -> tuple[Tensor, Tensor]:
        return torch.ones(len(text), 3), torch.ones(len(text), 4, dtype=torch.int64)


MODULES = (
    *(FiveInputs, MaskFirst, ByName, Weighted, Square),
    *(Letters, OneText, Uneven, Skips, Backwards, Unmarked),
)


def save(module: nn.Module, path: Path) -> Path:
    """Write a module as a TorchScript file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # users have such files, whatever PyTorch advises today
        torch.jit.save(torch.jit.script(module.eval()), str(path))
    return path


def save_files(folder: Path) -> Path:
    """Write all modules, and a tokenizer, into a folder."""
    for module in MODULES:
        save(module(), folder / f"{module.__name__}.pt")
    (folder / "tokenizer").mkdir()
    save_tokenizer(folder / "tokenizer")
    return folder
