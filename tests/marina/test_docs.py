import re

from handlers.worker.errors import KINDS
from marina.docs import made
from tests.conftest import ROOT


def test_files_made_from_code_are_up_to_date() -> None:
    for path, content in made(ROOT).items():
        assert path.read_text() == content, f"{path} is not up to date; run make docs"


def test_every_kind_of_error_is_used_and_known() -> None:
    used = set()
    for path in (ROOT / "handlers").rglob("*.py"):
        used |= set(re.findall(r'RequestError\(\s*"(\w+)"', path.read_text()))
    assert used == set(KINDS)
