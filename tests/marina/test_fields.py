from pathlib import Path

import pytest
import yaml
from pydantic import Field

from marina.fields import AnyFields, Section, load_yaml, read_fields


class Fields(Section):
    text: str | None = None
    texts: tuple[str, ...] = ()
    whole: int = 0
    number: float = 0.0
    flag: bool = False
    any_fields: AnyFields = Field({})


@pytest.mark.parametrize("written", ["1.10", "010", "1_0", "0012345", "0x1F", "1:30", "7", "1.0"])
def test_a_text_keeps_a_number_as_it_is_written(tmp_path: Path, written: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(f"text: {written}\ntexts: [{written}, x]\n")
    fields = read_fields(path, Fields)
    assert (fields.text, fields.texts) == (written, (written, "x"))


def test_all_other_values_are_those_of_yaml() -> None:
    text = "{whole: 010, number: 1_0.50, flag: yes, any_fields: {a: [1.10, 010, no, x], 1: .5}}"
    fields = Fields.model_validate(load_yaml(text))
    assert (fields.whole, fields.number, fields.flag) == (8, 10.5, True)
    assert fields.any_fields == {"a": [1.1, 8, False, "x"], "1": 0.5}
    assert yaml.safe_load(yaml.safe_dump(fields.any_fields)) == fields.any_fields
