"""`treestack import-authors`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def import_authors(
    checkpoint: Annotated[Positional[Path], arg(help="A released file <name>-model-<epoch>.checkpoint.")],
    *,
    output_dir: Annotated[Path, arg(help="The run folder to make.")],
    preset: Annotated[str, arg(help="Supplies the stack size and activations, which the file does not state.")] = "scripts",
    stack_size: Annotated[int | None, arg(help="Use this stack size instead of the preset's 5.")] = None,
) -> None:
    """Turn the authors' released weights into an ordinary run folder."""
    from dgl_treestack.runs.import_authors import import_checkpoint

    run = import_checkpoint(checkpoint, output_dir, preset, stack_size)
    print(f"{run.folder}: {run.config.model.name}, hidden {run.config.model.hidden}, settings {run.config.model.settings}")
