"""Arguments that several commands share, with the same name, meaning and help text everywhere."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg

from dgl_treestack.errors import ConfigurationError

if TYPE_CHECKING:
    from dgl_treestack.cluster import Cluster

Json = Annotated[bool, arg(name="json", help="Print JSON for programs instead of text for people.")]
Device = Annotated[str, arg(help="cpu or cuda; on cuda, the engine topo needs a DGL that is built for it.")]
Engine = Annotated[Literal["levels", "topo"], arg(help="The engine that runs the cell over a batch.")]
Precision = Annotated[Literal["float32", "float64"], arg(help="Floating-point type of the weights and states.")]
OptionalRun = Annotated[Path | None, arg(help="A run folder, whose model is used. Default: the model of the package.")]
Jobs = Annotated[int, arg(help="How many runs to train at a time, each in a process with one thread.")]
OnCluster = Annotated[str, arg(name="cluster", help="Address of a Ray cluster, or auto: tasks run there, not in --jobs.")]
Cpus = Annotated[float, arg(help="Processors of the cluster that a task takes.")]
Gpus = Annotated[float, arg(help="GPUs of the cluster that a task takes.")]


def where(jobs: int, cluster: str, cpus_per_task: float, gpus_per_task: float = 0.0) -> "int | Cluster":
    """Return where independent tasks run: in `jobs` processes of this machine, or on a cluster. Raises ConfigurationError."""
    if jobs < 1:
        raise ConfigurationError(f"The number of jobs is {jobs}; at least one is needed.")
    from dgl_treestack.cluster import Cluster

    return Cluster(cluster, cpus_per_task, gpus_per_task) if cluster else jobs


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=1, default=str))
