from handlers.worker.tasks import TASKS
from marina.archive.bundle import HANDLER
from marina.compiler.tasks import EXPORTERS
from tests.conftest import ROOT


def test_every_task_has_both_halves_and_an_entry_file() -> None:
    assert set(EXPORTERS) == set(TASKS)
    entry_files = {path.name for path in (ROOT / "handlers").glob("*.py")} - {"__init__.py", HANDLER}
    assert {task.entry_file for task in TASKS.values()} == entry_files
