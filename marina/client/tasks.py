"""The methods of a client for each task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from marina.client.types import (
    Answer,
    Entity,
    LabelScore,
    RankedDocument,
    Text,
    expect,
    is_embedding,
    is_entities,
    is_heads,
    is_packed_matrix,
    is_ranked,
    is_ranking,
    is_sparse,
    list_of,
    pairs_as_objects,
    ranked,
    unpack_matrix,
)
from marina.errors import ClientError

Json = Any


class TaskMethods(ABC):
    """One method per task, each of which checks that the model's answers are those of its task."""

    @abstractmethod
    def predict(self, model: str, inputs: Json, /, **parameters: Json) -> Json:
        """Send inputs of any task and return the model's answer."""

    @abstractmethod
    def _send(self, archive: str, document: Json) -> Json:
        """The server's answer to a document."""

    def embed(self, model: str, texts: Sequence[str], **parameters: Json) -> list[list[float]]:
        """Compute the embedding of each text (task sentence-embedding).

        Args:
            model: Name of the model.
            texts: The texts.
            **parameters: `prompt_name` (None for no prompt at all), `normalize`, `truncate`,
                `truncation_direction`, `dimensions`, and `precision` ("int8" or "uint8"; "binary" or "ubinary": eight
                values in a byte).

        Returns:
            One embedding per text, in order; with `precision`, lists of whole numbers.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        answers = self.predict(model, list_of(texts, "embed(model, [text])"), **parameters)
        return cast("list[list[float]]", expect(answers, is_embedding, "embed", model))

    def embed_sparse(self, model: str, texts: Sequence[str], **parameters: Json) -> list[dict[int, float]]:
        """Compute the sparse embedding of each text (task sparse-embedding).

        Args:
            model: Name of the model.
            texts: The texts.
            **parameters: `max_active_dims`, `prompt_name`, `truncate` and `truncation_direction`.

        Returns:
            For each text, its weights that are not 0, by their index in the vocabulary.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        inputs = list_of(texts, "embed_sparse(model, [text])")
        answers = self.predict(model, inputs, **parameters, format="indices")
        answers = expect(answers, is_sparse, "embed_sparse", model)
        return [{entry["index"]: entry["value"] for entry in answer} for answer in answers]

    def embed_multi_vector(
        self,
        model: str,
        texts: Sequence[str],
        *,
        is_query: bool = False,
        precision: str = "float32",
        **parameters: Json,
    ) -> list[list[list[float]]]:
        """Compute the vectors of the tokens of each text (task multi-vector-embedding).

        Args:
            model: Name of the model.
            texts: The texts.
            is_query: Whether they are queries, and not documents.
            precision: Of the vectors on their way: "float32", "float16" or "int8", which is 127 times a value.
            **parameters: `truncate` and `truncation_direction`.

        Returns:
            For each text, a vector for each of its tokens.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        inputs = list_of(texts, "embed_multi_vector(model, [text])")
        parameters |= {"is_query": is_query, "precision": precision, "encoding": "base64"}  # which is short
        answers = self.predict(model, inputs, **parameters)
        answers = expect(answers, is_packed_matrix, "embed_multi_vector", model)
        return [unpack_matrix(answer, precision) for answer in answers]

    def classify(
        self, model: str, texts: Sequence[Text], *, top_k: int | None = None, function_to_apply: str | None = None
    ) -> list[list[LabelScore]]:
        """Classify each text or pair of texts (task text-classification).

        Args:
            model: Name of the model.
            texts: The texts, or pairs of texts.
            top_k: Number of labels per text.
            function_to_apply: How logits become scores: "softmax", "sigmoid", "none", or "default" for what the
                model's configuration says.

        Returns:
            For each text, its labels with scores, best first.

        Raises:
            ClientError: There is no answer, or the model has another task.
        """
        inputs = pairs_as_objects(list_of(texts, "classify(model, [text])"))
        answers = self.predict(model, inputs, **_without_none(top_k=top_k, function_to_apply=function_to_apply))
        return cast("list[list[LabelScore]]", expect(answers, is_ranking, "classify", model))

    def classify_heads(
        self, model: str, texts: Sequence[Text], *, top_k: int | None = None
    ) -> list[dict[str, list[LabelScore]]]:
        """Classify each text or pair of texts with a model that has several heads.

        Args:
            model: Name of the model.
            texts: The texts, or pairs of texts.
            top_k: Number of labels per head.

        Returns:
            For each text, the labels with scores of each head, best first, by the name of the head.
        """
        inputs = pairs_as_objects(list_of(texts, "classify_heads(model, [text])"))
        answers = self.predict(model, inputs, **_without_none(top_k=top_k))
        return cast("list[dict[str, list[LabelScore]]]", expect(answers, is_heads, "classify_heads", model))

    def classify_zero_shot(
        self,
        model: str,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        hypothesis_template: str | None = None,
        multi_label: bool = False,
    ) -> list[list[LabelScore]]:
        """Classify each text by labels of your choice (task zero-shot-classification).

        Args:
            model: Name of the model.
            texts: The texts.
            labels: The labels to choose from.
            hypothesis_template: What the model compares with the text, with {} for the label; by default the spec's.
            multi_label: Whether several labels can be right; otherwise the scores of a text add up to 1.

        Returns:
            For each text, the labels with scores, best first.
        """
        parameters = _without_none(hypothesis_template=hypothesis_template)
        inputs = list_of(texts, "classify_zero_shot(model, [text], labels)")
        answers = self.predict(model, inputs, candidate_labels=list(labels), multi_label=multi_label, **parameters)
        return cast("list[list[LabelScore]]", expect(answers, is_ranking, "classify_zero_shot", model))

    def classify_tokens(
        self, model: str, texts: Sequence[str], *, aggregation_strategy: str | None = None, stride: int | None = None
    ) -> list[list[Entity]]:
        """Find the entities in each text (task token-classification).

        Args:
            model: Name of the model.
            texts: The texts.
            aggregation_strategy: How tokens are joined into entities: "simple", "first", "average" or "max". "none"
                returns every token.
            stride: Number of tokens that two windows share. If set, long texts are read in overlapping windows.

        Returns:
            For each text, its entities.
        """
        parameters = _without_none(aggregation_strategy=aggregation_strategy, stride=stride)
        answers = self.predict(model, list_of(texts, "classify_tokens(model, [text])"), **parameters)
        return cast("list[list[Entity]]", expect(answers, is_entities, "classify_tokens", model))

    def rerank(
        self,
        model: str,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        function_to_apply: str | None = None,
        candidates: int | None = None,
    ) -> list[RankedDocument]:
        """Sort documents by how well they answer a query (tasks reranking and multi-vector-embedding, and chains).

        Args:
            model: Name of the model.
            query: The query.
            documents: The documents.
            top_n: Number of documents to return. Default: all.
            function_to_apply: How the model's output becomes a score: "sigmoid", "none", or "default" for what
                `CrossEncoder.predict` of sentence-transformers does.
            candidates: Of a bundle with a chain: how many documents each model but the last passes on. Only these are
                returned. Their scores are between 0 and 1 if the last model is a reranker, or with "none" its outputs.

        Returns:
            The documents with the highest scores, best first.
        """
        texts = list_of(documents, "rerank(model, query, [document])")
        if candidates is not None:
            if function_to_apply not in (None, "sigmoid", "none"):
                raise ClientError("candidates: function_to_apply may be sigmoid or none for a chain")
            raw_scores = True if function_to_apply == "none" else None
            body = _without_none(query=query, texts=texts, candidates=candidates, top_n=top_n, raw_scores=raw_scores)
            answers = expect(self._send(model, body), is_ranked, "rerank", model)
            return cast("list[RankedDocument]", answers)
        pairs = [{"query": query, "document": text} for text in texts]
        scores = self.predict(model, pairs, **_without_none(function_to_apply=function_to_apply))
        scores = expect(scores, lambda score: isinstance(score, float | int), "rerank", model)
        return ranked(scores)[:top_n]

    def answer(
        self, model: str, question: str, context: str, *, top_k: int | None = None, **parameters: Json
    ) -> list[Answer]:
        """Find the answers to a question in a context (task question-answering).

        Args:
            model: Name of the model.
            question: The question.
            context: The text that may contain the answer.
            top_k: Number of answers.
            **parameters: `handle_impossible_answer`, `max_answer_len`, `doc_stride`, `max_seq_len` and
                `align_to_words`.

        Returns:
            The spans of the context that answer the question, best first.
        """
        inputs = {"question": question, "context": context}
        answers = self.predict(model, inputs, **_without_none(top_k=top_k), **parameters)
        return cast("list[Answer]", answers if isinstance(answers, list) else [answers])


def _without_none(**parameters: Json) -> dict[str, Json]:
    return {name: value for name, value in parameters.items() if value is not None}
