"""Reading files of DGL graphs safely.

DGL's loader trusts the sizes that a file states, so a damaged file can end the whole process. Therefore a child process loads
the file and writes edges and features of one batch as safetensors, and this process reads only those.
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
REFUSED = 3  # exit code of the child for graphs that cannot form one batch; it has written the reason
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
        target = Path(folder, "graphs")
        # The loader ended the process for one of the first 16 damaged files that were tried.
        process = multiprocessing.get_context("fork").Process(target=_unpack, args=(path, target))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads; the child starts none
            process.start()
        try:
            process.join(TIME_LIMIT)
            code = process.exitcode  # negative if it was killed, None after the time limit
        finally:
            process.kill()
            process.join()
        if code != 0:
            raise DataError(target.read_text() if code == REFUSED else DAMAGED, path)
        tensors = load_file(target)
    sizes, edge_counts = tensors.pop("nodes"), tensors.pop("edges")
    graph = _dgl.graph((tensors.pop("source"), tensors.pop("target")), num_nodes=int(sizes.sum()))
    graph.set_batch_num_nodes(sizes.to(graph.idtype))  # DGL 2 refuses another type
    graph.set_batch_num_edges(edge_counts.to(graph.idtype))
    try:
        for name, values in tensors.items():
            frame, _, feature = name.partition("/")
            (graph.ndata if frame == "node" else graph.edata)[feature] = values
    except _dgl.DGLError:  # not as many values as nodes
        raise DataError(DAMAGED, path) from None
    return graph


def _unpack(path: Path, target: Path) -> None:
    """Load the file with DGL and write the batch of its graphs as safetensors, or why there is none. Runs in the child.

    The child is silent, has one thread, and its memory is limited.
    """
    faulthandler.disable()  # silent also where it is enabled, as by pytest
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.stdout = sys.stderr = os.fdopen(null, "w")  # Python's streams need not be file descriptors 1 and 2
    torch.set_num_threads(1)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit, hard = used + 16 * path.stat().st_size + 2**30, resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        save_file(_batched(_dgl.load_graphs(str(path))[0]), target)
    except DataError as error:
        target.write_text(str(error))
        sys.exit(REFUSED)


def _batched(graphs: list[DGLGraph]) -> dict[str, Tensor]:
    """Return graphs as one batch: `source`, `target`, `nodes` and `edges` per graph, features as `node/NAME` and `edge/NAME`.

    Raises DataError unless all have the same features, of the same dtypes and shapes, and node ids of one dtype, ValueError
    for an edge without a node.
    """
    if not graphs:
        raise DataError("There are no graphs in the file. Save some.")
    parts, first, offset = list[dict[str, Tensor]](), dict[str, str](), 0
    for i, graph in enumerate(graphs):
        if len(graph.ntypes) != 1 or len(graph.etypes) != 1:
            raise DataError("A batch of trees has one type of node and one type of edge. Save such graphs.")
        ends, count = torch.stack(answer(lambda graph: graph.edges(order="eid"), graph)), graph.num_nodes()
        if ends.numel() and not 0 <= int(ends.min()) <= int(ends.max()) < count:
            raise ValueError("An edge has no node.")
        part, kinds = {}, {"the type of node numbers": str(graph.idtype)}
        for frame, features in (("node", graph.ndata), ("edge", graph.edata)):
            for name, values in features.items():
                part[f"{frame}/{name}"] = values
                kinds[f"{frame} feature {name!r}"] = f"{values.dtype} {tuple(values.shape[1:])}"
        first = first or kinds
        if kinds != first:
            name = min({name for name, _ in first.items() ^ kinds.items()})
            raise DataError(
                f"Graph {i} does not go into a batch with graph 0: {name} is {kinds.get(name, 'missing')} and "
                f"{first.get(name, 'missing')}. Save graphs with the same features, or each into a file."
            )
        source, target = ends + offset
        numbers = {"nodes": torch.tensor([count]), "edges": torch.tensor([len(source)])}
        parts.append({**part, "source": source, "target": target, **numbers})
        offset += count
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
