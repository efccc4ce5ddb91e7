import json
from pathlib import Path
from statistics import mean, median

import pytest

from handlers.worker.request.schema import Fields
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX, bodies_of, read_payload
from marina.errors import SpecError

ONE = Fields("text", "text_pair")
QUESTIONS = Fields("question", "context", second_required=True)


def inputs(body: bytes) -> object:
    return json.loads(body)["inputs"]


def test_the_mix_of_texts_is_what_it_says_and_always_the_same() -> None:
    lengths = sorted(len(text.split()) + 2 for text in mixed_texts())
    assert mean(lengths) == pytest.approx(22, abs=0.5)
    assert median(lengths) == 17
    assert lengths[int(len(lengths) * 0.95)] == pytest.approx(55, abs=3)
    assert mixed_texts() == mixed_texts()
    assert mixed_texts(seed=1) != mixed_texts()


def test_the_mix_fits_every_task() -> None:
    assert [inputs(body) for body in read_payload(MIX, ONE, 1).bodies] == mixed_texts()
    payload = read_payload(MIX, QUESTIONS, 1)
    assert set(json.loads(payload.bodies[0])["inputs"]) == {"question", "context"}


def test_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two", "text_pair": "zwei"}\n{"text": "three"}\n')
    payload = read_payload(str(path), ONE, 1)
    assert [inputs(body) for body in payload.bodies] == ["one", {"text": "two", "text_pair": "zwei"}, "three"]
    assert payload.source == "texts.jsonl"


def test_every_request_carries_as_many_instances(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("text\none\ntwo\nthree\n")
    payload = read_payload(str(path), ONE, 2)
    assert [inputs(body) for body in payload.bodies] == [["one", "two"], ["three", "one"]]
    assert [len(json.loads(body)["inputs"]) for body in bodies_of(list("abcde"), 7)] == [7]


def test_a_histogram_makes_texts_of_those_lengths(tmp_path: Path) -> None:
    path = tmp_path / "lengths.json"
    path.write_text('{"12": 300, "40": 100}')
    lengths = [len(str(inputs(body)).split()) + 2 for body in read_payload(str(path), ONE, 1).bodies]
    assert (lengths.count(12), lengths.count(40), len(lengths)) == (300, 100, 400)
    assert lengths[:20] != sorted(lengths[:20])


@pytest.mark.parametrize("name", ["texts.txt", "missing.csv"])
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "texts.txt").write_text("one\n")
    with pytest.raises(SpecError, match=name):
        read_payload(str(tmp_path / name), ONE, 1)
