"""Reading files of DGL graphs safely.

DGL's loader trusts the sizes that a file states, so a damaged file can end the whole process. Therefore a child process loads
the file and writes edges and features as safetensors, and this process reads only those.
"""

import faulthandler
import multiprocessing
import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.wellformed import answer
from dgl_treestack.errors import DataError

TIME_LIMIT = 300  # seconds for the child
MIXED = 3  # exit code of the child for graphs with several types of nodes or edges
DAMAGED = "The file is damaged, or holds no DGL graphs. Write it again with `dgl.save_graphs`."


def read(file: Path | str) -> DGLGraph:
    """Return the graphs of a file that `dgl.save_graphs` wrote, as one batch.

    Raises DataError for a file that is missing or damaged, and for graphs that cannot form one batch.
    """
    _dgl.require()
    path = Path(file)
    if not path.is_file():
        raise DataError("There is no such file. Give the path of a file that `dgl.save_graphs` wrote.", path)
    with tempfile.TemporaryDirectory() as folder:
        unpacked = Path(folder, "graphs.safetensors")
        code = _run_child(path, unpacked)
        if code == MIXED:
            raise DataError("A batch of trees has one type of node and one type of edge. Save such graphs.", path)
        if code != 0:
            raise DataError(DAMAGED, path)
        tensors_of_graph: dict[int, dict[str, Tensor]] = {}
        for name, values in load_file(unpacked).items():
            number, _, name_in_graph = name.partition("/")
            tensors_of_graph.setdefault(int(number), {})[name_in_graph] = values
    if not tensors_of_graph:
        raise DataError("There are no graphs in the file. Save some.", path)
    try:
        graphs = [_build_graph(tensors_of_graph[i]) for i in range(len(tensors_of_graph))]
    except (_dgl.DGLError, ValueError):
        raise DataError(DAMAGED, path) from None
    _check_alike(graphs, path)
    return graphs[0] if len(graphs) == 1 else _dgl.batch(graphs)


def _run_child(path: Path, target: Path) -> int | None:
    """Unpack the file in a child process. Returns its exit code: negative if it was killed, None after the time limit."""
    # The loader ended the process for one of the first 16 damaged files that were tried.
    process = multiprocessing.get_context("fork").Process(target=_unpack, args=(path, target))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads; the child starts none
        process.start()
    try:
        process.join(TIME_LIMIT)
        return process.exitcode
    finally:
        process.kill()
        process.join()


def _unpack(path: Path, target: Path) -> None:
    """Load the file with DGL and write it as safetensors: `<graph>/source`, `/target`, `/count`, `/nodes/...`, `/edges/...`.

    Runs in the child.
    """
    _restrict_process(16 * path.stat().st_size + 2**30)
    tensors: dict[str, Tensor] = {}
    for i, graph in enumerate(_dgl.load_graphs(str(path))[0]):
        if len(graph.ntypes) != 1 or len(graph.etypes) != 1:
            sys.exit(MIXED)
        source, parent = answer(lambda graph: graph.edges(order="eid"), graph)
        features = {f"nodes/{name}": values for name, values in graph.ndata.items()}
        features |= {f"edges/{name}": values for name, values in graph.edata.items()}
        features |= {"source": source, "target": parent, "count": torch.tensor(graph.num_nodes())}
        tensors |= {f"{i}/{name}": values.clone(memory_format=torch.contiguous_format) for name, values in features.items()}
    save_file(tensors, target)


def _restrict_process(extra_bytes: int) -> None:
    """Silence this process, restrict it to one thread, and limit its memory to `extra_bytes` more than now."""
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.stdout = sys.stderr = os.fdopen(null, "w")  # Python's streams need not be file descriptors 1 and 2
    torch.set_num_threads(1)
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + extra_bytes
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _build_graph(tensors: dict[str, Tensor]) -> DGLGraph:
    """Build a graph from the tensors of `_unpack`. Raises ValueError or DGLError if they contradict each other."""
    source, target, count = tensors.pop("source"), tensors.pop("target"), int(tensors.pop("count"))
    ends = torch.cat([source, target])
    if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < count:
        raise ValueError("An edge has no node.")
    graph = _dgl.graph((source, target), num_nodes=count)
    for name, values in tensors.items():
        frame, _, feature = name.partition("/")
        (graph.ndata if frame == "nodes" else graph.edata)[feature] = values
    return graph


def _check_alike(graphs: list[DGLGraph], path: Path) -> None:
    """Raise DataError unless all graphs have the same features, of the same dtypes and shapes, and node ids of one dtype."""
    first: dict[str, str] = {}
    for i, graph in enumerate(graphs):
        kinds = {"the type of node numbers": str(graph.idtype)}
        for frame, features in (("node feature", graph.ndata), ("edge feature", graph.edata)):
            kinds |= {f"{frame} {name!r}": f"{values.dtype} {tuple(values.shape[1:])}" for name, values in features.items()}
        first = first or kinds
        if kinds != first:
            name = min({name for name, _ in first.items() ^ kinds.items()})
            raise DataError(
                f"Graph {i} does not go into a batch with graph 0: {name} is {kinds.get(name, 'missing')} and "
                f"{first.get(name, 'missing')}. Save graphs with the same features, or each into a file.",
                path,
            )
