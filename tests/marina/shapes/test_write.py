from pathlib import Path

import pytest

from handlers.worker.values import Shape
from marina.errors import SpecError
from marina.shapes.write import write_shapes
from marina.spec import read_spec

HEAD = "# what it is\nname: m\ntask: text-classification\nsource:\n  path: p\n"
TAIL = "# why\nexamples: x.csv\n"
SHAPES = [Shape(1, 16), Shape(8, 32)]


@pytest.mark.parametrize(
    "block",
    [
        "shapes:\n  sequence_lengths: [16]\n\n  # a comment\n  batch_sizes:\n    - 1\n",
        "shapes:\n  sequence_lengths: [32]\n#  packed: [1x64]\n\n  packed: [4x128]\n",
        "shapes:\n#  auto: 64\n  # a comment\n  auto: 128\n",
        "shapes: {exact: [1x8]}\n",
        "",
    ],
)
def test_only_the_shapes_change(tmp_path: Path, block: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(HEAD + block + TAIL)
    write_shapes(path, SHAPES)
    assert read_spec(path).shapes.listed() == tuple(SHAPES)
    rest = path.read_text().replace("shapes:\n  exact: [1x16, 8x32]\n", "")
    assert rest == HEAD + TAIL
    assert list(tmp_path.iterdir()) == [path]


def test_a_spec_is_left_as_it_was_when_shapes_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(HEAD + "unknown: 1\n")
    with pytest.raises(SpecError):
        write_shapes(path, SHAPES)
    assert path.read_text() == HEAD + "unknown: 1\n"
    assert list(tmp_path.iterdir()) == [path]
