import re

from handlers.worker.errors import KINDS
from marina.docs import errors_page
from tests.conftest import ROOT


def test_pages_made_from_code_are_up_to_date() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == errors_page()


def test_every_kind_of_error_is_used_and_known() -> None:
    used = set()
    for path in (ROOT / "handlers").rglob("*.py"):
        used |= set(re.findall(r'RequestError\(\s*"(\w+)"', path.read_text()))
    assert used == set(KINDS)
