"""Peers are started, compared and measured, with a small server in place of one that must be installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kinds import TABLES
from benchmarks.peers import agreement, process, table
from benchmarks.peers import int8_models as untyped
from benchmarks.peers.settings import EMBEDDINGS, ENTITIES, INTENTS, Peer, peers, request_bodies
from marina.bench.report.results import Configuration, Result
from marina.bench.report.table import markdown_of
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.tables.kinds import draw, layout_of
from marina.errors import MarinaError
from tests.marina.bench.results import entry, measured, result

# answers "yes" to texts with a question mark, and fails for requests without texts
SERVER = """
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Server(ThreadingHTTPServer):
    request_queue_size = 128

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        inputs = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
        texts = [inputs] if isinstance(inputs, str) else inputs
        answers = [[{"label": "yes" if "?" in text else "no", "score": 0.9}] for text in texts]
        body = json.dumps(answers[0] if isinstance(inputs, str) else answers).encode()
        self.send_response(200 if self.path == "/predict" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
int8_models: Any = untyped
TEXTS, ORIGINAL = ["is it?", "it is", "who?"], ["yes", "no", "no"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a virtual environment that is the present one, and short workloads."""
    (tmp_path / "venvs" / "stub" / "bin").mkdir(parents=True)
    (tmp_path / "venvs" / "stub" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "server.py").write_text(SERVER)
    for name in ("model.safetensors", "config.json", "tokenizer.json", process.texts_file(INTENTS)):
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "stub.txt").write_text("")
    for name in ("quantize.py", "gguf_model.py"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(process, "HERE", tmp_path)
    monkeypatch.setattr(table, "SECONDS", 1.0)
    monkeypatch.setattr(table, "FIRST_S", 0.5)
    monkeypatch.setattr(table, "LOADS", ((1, 1), (32, 4)))
    monkeypatch.setattr(process, "START_S", 30)
    return tmp_path


def stub(start: str) -> Peer:
    return Peer("stub", "stub", INTENTS, start, 1, "nothing is said")


def strategy_of(peer: Peer, folder: Path, record: table.Record) -> Any:
    subject = table.Subject(INTENTS, "ava-intent", folder, TEXTS, ORIGINAL)
    return table._peer_strategy(peer, subject, folder, 2, record)


def test_a_peer_is_compared_and_measured_under_every_load(folder: Path) -> None:
    record = table.Record({}, {})
    strategy = strategy_of(stub(f"{{bin}}/python {folder}/server.py {{port}}"), folder, record)
    entries, failures = measure_rounds([strategy], 1, lambda *_: None, leave_out_failures=True)
    assert failures == []
    assert [measured_entry.configuration for measured_entry in entries] == [
        Configuration(
            model="ava-intent",
            strategy="stub",
            precision="f32",
            workers=1,
            connections=connections,
            instances=instances,
            texts="built-in mix",
            protocol="rest",
        )
        for instances, connections in ((1, 1), (32, 4))
    ]
    assert all(measured_entry.rounds[0].requests > 0 for measured_entry in entries)
    assert record.agreements == {"ava-intent: stub, 1": 2 / 3}
    costs = record.costs["ava-intent: stub, 1"]
    assert sorted(cost[:2] for cost in costs) == [(1, 1), (32, 4)]
    assert all(megabytes > 5 and 0 < cpu_s < 100 for _, _, megabytes, cpu_s in costs)


def test_a_peer_that_does_not_start_is_left_out_and_named(folder: Path) -> None:
    strategy = strategy_of(stub("{bin}/python -c pass"), folder, table.Record({}, {}))
    entries, failures = measure_rounds([strategy], 2, lambda *_: None, leave_out_failures=True)
    assert entries == []
    assert failures == [f"stub, ava-intent: it did not start; see {folder / 'stub, text-classification, 1.log'}"]


def test_a_peer_whose_answers_are_of_another_form_is_left_out_and_named(folder: Path) -> None:
    peer = stub(f"{{bin}}/python {folder}/server.py {{port}}")
    subject = table.Subject(EMBEDDINGS, "resume-search", folder, TEXTS, [np.ones(3)] * 3)
    strategy = table._peer_strategy(peer._replace(task=EMBEDDINGS), subject, folder, 2, table.Record({}, {}))
    _, failures = measure_rounds([strategy], 1, lambda *_: None, leave_out_failures=True)
    assert len(failures) == 1
    assert failures[0].startswith("stub, resume-search: it does not answer as it should: ")


def test_a_model_is_prepared_once_and_again_for_other_weights_texts_or_packages(folder: Path) -> None:
    command = "{bin}/python -c \"open('{model}/made', 'w').write('{library} {task}')\""
    peer = stub("")._replace(library="some-library", prepare=command)
    made = process._prepared(peer, folder, folder)
    assert (made / "made").read_text() == "some-library text-classification"
    (made / "made").write_text("kept")
    assert process._prepared(peer, folder, folder) == made
    assert (made / "made").read_text() == "kept"
    for name in ("model.safetensors", process.texts_file(INTENTS), "stub.txt"):
        (folder / name).write_bytes(b"others")
        others = process._prepared(peer, folder, folder)
        assert others != made
        made = others


def test_a_model_that_cannot_be_prepared_leaves_nothing_that_would_be_used(folder: Path) -> None:
    peer = stub("")._replace(prepare='{bin}/python -c "raise ValueError(1)"')
    for _ in range(2):
        with pytest.raises(MarinaError, match=r"failed: ValueError: 1$"):
            process._prepared(peer, folder, folder)


def test_every_peer_has_its_packages_and_a_body_for_each_text() -> None:
    settings = peers(cores=2)
    assert {peer.task for peer in settings if peer.precision == "int8"} == {INTENTS, EMBEDDINGS, ENTITIES}
    for peer in settings:
        assert (process.HERE / f"{peer.packages}.txt").read_text()
        for command in (peer.start, peer.prepare or peer.start):
            words = process._words(command, peer, Path("model"), Path("source"), Path("folder"), 1)
            assert words[0].startswith("folder/venvs/")
            for word in words:
                if word.endswith(".py"):
                    assert Path(word).exists()


def test_requests_have_the_form_that_each_server_reads() -> None:
    assert [json.loads(body) for body in request_bodies("inputs", ["a", "b"], 1)] == [{"inputs": "a"}, {"inputs": "b"}]
    assert [json.loads(body) for body in request_bodies("inputs", ["a", "b"], 2)] == [{"inputs": ["a", "b"]}]
    assert json.loads(request_bodies("openai", ["a"], 1)[0]) == {"model": "peer", "input": ["a"]}
    assert json.loads(request_bodies("openai", ["a", "b"], 2)[0]) == {"model": "peer", "input": ["a", "b"]}


def test_one_core_gives_each_peer_one_setting() -> None:
    names = [(peer.name, peer.task) for peer in peers(cores=1)]
    assert len(names) == len(set(names))


def test_agreement_is_of_labels_of_directions_and_of_entities() -> None:
    assert agreement.agreement(INTENTS, ["a", "b"], ["a", "c"]) == 0.5
    halves = agreement.agreement(EMBEDDINGS, [np.array([2.0, 0.0]), np.array([0.0, 1.0])], [np.array([1.0, 0.0])] * 2)
    assert halves == pytest.approx(0.5)
    entities = [{(0, 3, "ORG"), (5, 9, "NAME")}, set()]
    assert agreement.agreement(ENTITIES, entities, [{(0, 3, "ORG")}, {(1, 2, "DATE")}]) == pytest.approx(0.5)
    assert agreement.agreement(ENTITIES, [set()], [set()]) == 1.0


def made_result() -> Result:
    rates = {("Marina, direct", "int8"): 300.0, ("mosec, OpenVINO", "int8"): 100.0, ("infinity, torch", "f32"): 200.0}
    entries = [
        entry(
            [measured(rate * factor, 1.0) for factor in (1.0, 2.0)],
            **{"model": "ava-intent", "strategy": strategy, "precision": precision, "workers": 1},
            **{"instances": instances, "connections": connections},
        )
        for (strategy, precision), rate in rates.items()
        for instances, connections in table.LOADS
    ]
    keys = [f"ava-intent: {strategy}, 1" for strategy, _ in rates]
    more = {
        "agreements": dict.fromkeys(keys, 0.99),
        "costs": {key: [[1, 64, 500.0, 3.0], [32, 4, 600.0, 9.0]] for key in keys},
    }
    return result(entries, kind=table.KIND, more=more)


def test_the_table_has_a_row_for_each_server_and_ratios_against_the_best_in_int8() -> None:
    layout = layout_of(made_result(), TABLES)
    assert layout.conclusion == (
        "At its best, Marina answers 3.0 to 3.0 times as many texts as the best peer in int8, by model and load."
    )
    text = markdown_of(layout)
    assert "| infinity, torch | 1 | f32 | 300 |" in text
    assert "| ava-intent | 32 x 4 | direct, 1 | mosec, OpenVINO, 1 | 450 | 150 | 3.00x |" in text
    assert "| 600 | 3.0 | 0.990 |" in text
    assert draw(made_result(), TABLES)["throughput"].startswith(b"<?xml")


def test_another_model_is_refused() -> None:
    job: Any = SimpleNamespace(name="help-qa")
    with pytest.raises(MarinaError, match=r"^other servers are compared with the demonstration models alone"):
        table.measure(job)


@given(st.lists(st.text("ab ", min_size=1), max_size=40))
def test_answers_come_in_the_order_of_the_texts(texts: list[str]) -> None:
    batches: list[list[str]] = []

    def answer(batch: list[str]) -> list[str]:
        batches.append(batch)
        return batch

    assert int8_models.by_length(answer)(texts) == texts
    lengths = [len(text) for batch in batches for text in batch]
    assert lengths == sorted(lengths)
    assert all(len(batch) <= int8_models.BATCH for batch in batches)


def test_words_with_one_label_are_an_entity(tmp_path: Path) -> None:
    (tmp_path / "original.json").write_text(json.dumps({"id2label": {"0": "O", "1": "NAME", "2": "ORG"}}))
    text = "Ada Byron of Siemens"
    # a word of two tokens, of which the second has another label, and padding
    encoding = SimpleNamespace(
        word_ids=[None, 0, 1, 1, 2, 3, None], offsets=[(0, 0), (0, 3), (4, 6), (6, 9), (10, 12), (13, 20), (0, 0)]
    )
    logits = np.eye(3, dtype=np.float32)[[0, 1, 1, 2, 0, 2, 1]][None] * 9
    (entities,) = int8_models.Entities(tmp_path)(logits, [encoding], [text])
    assert [(entity["entity_group"], entity["word"]) for entity in entities] == [
        ("NAME", "Ada Byron"),
        ("ORG", "Siemens"),
    ]
    (answer,) = int8_models.Labels(tmp_path)(np.array([[0.0, 9.0, 0.0]]), [encoding], [text])
    assert answer["label"] == "NAME"
    assert answer["score"] > 0.99


def test_embeddings_are_means_of_tokens_without_padding() -> None:
    encoding = SimpleNamespace(attention_mask=[1, 1, 0])
    vectors = np.array([[[3.0, 0.0], [3.0, 8.0], [99.0, 99.0]]], dtype=np.float32)
    assert int8_models.embeddings(vectors, [encoding], None) == [pytest.approx([0.6, 0.8])]
