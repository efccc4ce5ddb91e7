from pathlib import Path

import pytest

from marina.errors import MarinaError
from marina.project import Project, find_project


def test_a_project_is_found_from_any_folder_in_it(project: Project) -> None:
    deep = project.root / "models" / "deep"
    deep.mkdir()
    assert find_project(deep) == project
    assert find_project(project.root) == project


def test_elsewhere_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(MarinaError, match="is not in a Marina project; go to the folder that holds models/"):
        find_project(tmp_path)
