import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def authors() -> Path:
    """The folder with the authors' data, weights and outputs; the test is skipped where it is not given."""
    folder = os.environ.get("TREESTACK_AUTHORS_DIR")
    if not folder:
        pytest.skip("TREESTACK_AUTHORS_DIR is not set: the authors' files are not part of the project")
    return Path(folder)
