"""Arguments that several commands take, with the same name, meaning and help text everywhere."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

Json = Annotated[bool, arg(name="json", help="Print JSON for programs instead of text for people.")]
Device = Annotated[str, arg(help="cpu, or cuda; the engine topo needs a DGL that is built for it.")]
Engine = Annotated[Literal["levels", "topo"], arg(help="The driver that runs the cell over a batch.")]
Precision = Literal["float32", "float64"]
OptionalRun = Annotated[Path | None, arg(help="The run folder whose model is asked; the model of the package otherwise.")]
Jobs = Annotated[int, arg(help="Runs at a time, each a process with one thread.")]


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=1, default=str))
