"""Saved DGL graphs, read without harm.

DGL's loader trusts what a file says of itself: a damaged file ends the whole process. So a child process loads the file and
writes edges and features in a form that can be read safely; only that is read here.
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
from dgl_treestack.errors import DataError

LONGEST = 300  # seconds for the child
MIXED = 3  # exit code of the child for graphs with several types of nodes or edges
DAMAGED = "This is no whole file of DGL graphs. Write it anew with `dgl.save_graphs`."


def read(file: Path | str) -> DGLGraph:
    """The graphs of a file that `dgl.save_graphs` wrote, as one batch.

    Raises DataError for a file that is missing or damaged, and for graphs that do not go into one batch.
    """
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
        tensors = load_file(unpacked)
    graphs = _graphs(tensors, path)
    if not graphs:
        raise DataError("There are no graphs in the file. Save some.", path)
    _check_alike(graphs, path)
    return graphs[0] if len(graphs) == 1 else _dgl.batch(graphs)


def _run_child(path: Path, target: Path) -> int | None:
    """The exit code of a process that unpacks the file; negative or None where something ended it."""
    process = multiprocessing.get_context("fork").Process(target=_unpack, args=(path, target))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads; the child starts none
        process.start()
    try:
        process.join(LONGEST)
        return process.exitcode
    finally:
        process.kill()
        process.join()


def _unpack(path: Path, target: Path) -> None:
    _make_quiet_and_small(16 * path.stat().st_size + 2**30)
    tensors: dict[str, Tensor] = {}
    for i, graph in enumerate(_dgl.load_graphs(str(path))[0]):
        if len(graph.ntypes) != 1 or len(graph.etypes) != 1:
            sys.exit(MIXED)
        source, parent, edge = graph.formats("coo").edges(form="all")  # other formats know other orders only
        order = edge.argsort()
        features = {f"nodes/{name}": values for name, values in graph.ndata.items()}
        features |= {f"edges/{name}": values for name, values in graph.edata.items()}
        features |= {"source": source[order], "target": parent[order], "count": torch.tensor(graph.num_nodes())}
        tensors |= {f"{i}/{name}": values.clone(memory_format=torch.contiguous_format) for name, values in features.items()}
    save_file(tensors, target)


def _make_quiet_and_small(room: int) -> None:
    """Let this process say nothing, start no threads and take `room` more bytes of memory at most."""
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.stdout = sys.stderr = os.fdopen(null, "w")  # which need not be files 1 and 2
    torch.set_num_threads(1)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (taken + room if hard == resource.RLIM_INFINITY else min(taken + room, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _graphs(tensors: dict[str, Tensor], path: Path) -> list[DGLGraph]:
    parts: dict[int, dict[str, Tensor]] = {}
    for name, values in tensors.items():
        number, _, rest = name.partition("/")
        parts.setdefault(int(number), {})[rest] = values
    try:
        return [_graph(parts[i]) for i in range(len(parts))]
    except (_dgl.DGLError, ValueError):
        raise DataError(DAMAGED, path) from None


def _graph(parts: dict[str, Tensor]) -> DGLGraph:
    """Raises ValueError or DGLError where parts do not fit together."""
    source, target, count = parts.pop("source"), parts.pop("target"), int(parts.pop("count"))
    ends = torch.cat([source, target])
    if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < count:
        raise ValueError("An edge has no node.")
    lengths = {"nodes": count, "edges": len(source)}
    graph = _dgl.graph((source, target), num_nodes=count)
    for name, values in parts.items():
        home, _, feature = name.partition("/")
        if len(values) != lengths[home]:
            raise ValueError(f"{name} has {len(values)} rows.")
        (graph.ndata if home == "nodes" else graph.edata)[feature] = values
    return graph


def _check_alike(graphs: list[DGLGraph], path: Path) -> None:
    first = _kinds(graphs[0])
    for i, graph in enumerate(graphs):
        kinds = _kinds(graph)
        if kinds != first:
            name = min({name for name, _ in first.items() ^ kinds.items()})
            raise DataError(
                f"Graph {i} does not go into a batch with graph 0: {name} is {kinds.get(name, 'missing')} and "
                f"{first.get(name, 'missing')}. Save graphs with the same features, or each into a file.",
                path,
            )


def _kinds(graph: DGLGraph) -> dict[str, str]:
    """Type and shape of what every node and edge has."""
    homes = {"node feature": graph.ndata, "edge feature": graph.edata}
    kinds = {f"{home} {name!r}": f"{v.dtype} {tuple(v.shape[1:])}" for home, data in homes.items() for name, v in data.items()}
    return kinds | {"the type of node numbers": str(graph.idtype)}
