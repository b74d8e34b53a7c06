"""The reference engine: `dgl.prop_nodes_topo` with one apply-node function, which calls the cell once per group of operators.

The fields of a node are concatenated into one feature, `state` (N, D). A message writes the child's state to the slot that
edge feature `slot` gives, so the order of edges does not matter. The apply-node function groups a frontier by operator,
operators with equal weights in one group, and passes every group to the cell. For a cell on a GPU DGL names the frontiers, and
their features are gathered on the GPU.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import PER_CHILD, Cell, Map, OperatorLinear, Shape, State, apply_map
from dgl_treestack.data.wellformed import FORMATS, NO_OPERATOR
from dgl_treestack.expression.operators import Signature


class OneOperator:
    """`Ops` for a group of nodes that share one operator. maps: of all operators, by product."""

    def __init__(self, cell: Cell, operator: str, maps: Mapping[OperatorLinear, Mapping[str, Map]]):
        self.cell, self.operator, self.maps = cell, operator, maps

    def linear(self, product: str, x: Tensor) -> Tensor:
        return apply_map(self.maps[self.cell.products[product]][self.operator], x)


def run(
    graph: DGLGraph, cell: Cell, signature: Signature, signals: Sequence[str], noise: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Run a cell, see `propagate.compute`. Returns fields and signals of all nodes."""
    graph = graph.formats(FORMATS).to("cpu").local_var()  # other threads may use the graph
    step = _Step(graph, cell, signature, signals, noise)
    # DGL traverses on the CPU wherever the features are (dgl issue 2910), and PyPI has no DGL for GPUs.
    features = by_dgl(step) if step.like.device.type == "cpu" else by_frontier(step)
    return {**unpack(features["state"], cell.fields), **{f"signal/{name}": features[f"signal/{name}"] for name in signals}}


def by_dgl(step: "_Step") -> Mapping[str, Tensor]:
    """Return the node features that `dgl.prop_nodes_topo` leaves."""
    graph = step.graph
    graph.ndata.update(step.features)
    graph.edata["one_hot_slot"] = functional.one_hot(graph.edata["slot"].long(), step.max_arity).to(step.like).unsqueeze(2)
    # Built-in functions: a reduce function in Python that sorts the mailbox warns on every frontier of leaves, and is
    # called once per arity.
    _dgl.prop_nodes_topo(
        graph,
        _dgl.function.u_mul_e("state", "one_hot_slot", "message"),
        _dgl.function.sum("message", "children"),
        apply_node_func=lambda nodes: step(nodes.data),
    )
    return graph.ndata


def by_frontier(step: "_Step") -> Mapping[str, Tensor]:
    """Return the same features, bit for bit, with the frontiers of DGL on the CPU and the features on the cell's device."""
    graph, features, device = step.graph, dict(step.features), step.like.device
    for frontier in _dgl.topological_nodes_generator(graph):
        children, _, edges = graph.in_edges(frontier, form="all")  # parent after parent
        parents = torch.repeat_interleave(torch.arange(len(frontier)), graph.in_degrees(frontier))
        slots = (parents * step.max_arity + graph.edata["slot"][edges.long()].long()).to(device)
        mailbox = features["state"].new_zeros(len(frontier) * step.max_arity, *step.shapes["state"])
        mailbox = mailbox.index_copy(0, slots, features["state"].index_select(0, children.to(device)))
        nodes = frontier.long().to(device)
        data = {name: feature.index_select(0, nodes) for name, feature in features.items()}
        for name, rows in step({**data, "children": mailbox.unflatten(0, (len(frontier), step.max_arity))}).items():
            features[name] = features[name].index_copy(0, nodes, rows)
    return features


class _Step:
    """The apply-node function: a frontier's features in, its states and signals out.

    features: what the sweep reads of every node, and the states and signals that it writes, on the cell's device.
    groups: of every operator, the index of the first one with equal weights in all products; the last is NO_OPERATOR.
    """

    def __init__(self, graph: DGLGraph, cell: Cell, signature: Signature, signals: Sequence[str], noise: Mapping[str, Tensor]):
        self.graph, self.cell, self.signature, self.noise = graph, cell, signature, noise
        self.maps = {linear: linear.maps() for linear in cell.products.values()}
        self.like = like = next(cell.parameters())
        self.max_arity = int(graph.edata["slot"].max()) + 1 if graph.num_edges() else 1
        state_width = sum(torch.Size(shape).numel() for shape in cell.fields.values())
        shapes = {name: tuple(self.max_arity if n == PER_CHILD else n for n in cell.signals[name]) for name in signals}
        self.shapes = {"state": (state_width,), **{f"signal/{name}": shape for name, shape in shapes.items()}}
        first: dict[tuple, int] = {}
        groups = []
        for index, operator in enumerate(signature.operators):
            keys = [maps.keys.get(operator.name) for maps in cell.products.values()]
            weights = (index,) if None in keys or not keys else (*keys, operator.arity)
            groups.append(first.setdefault(weights, index))
        self.groups = torch.tensor([*groups, NO_OPERATOR]).to(like.device)
        data = graph.ndata
        features = {"op": data["op"].long(), "token": data["token"].long(), "number": data["number"]}
        features |= {"arity": graph.in_degrees(), **({"input": data["input"]} if cell.input_size else {})}
        features |= {f"noise/{name}": factors for name, factors in noise.items()}
        self.features = {name: feature.to(like.device) for name, feature in features.items()}
        for name, shape in self.shapes.items():  # also for a graph without nodes, on which no step runs
            self.features[name] = like.new_zeros(graph.num_nodes(), *shape)

    def __call__(self, data: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the states and signals of nodes with these features."""
        groups = self.groups[data["op"]]
        inputs = ["input"] if self.cell.input_size else []
        parts, rows = [], []
        for operator, arity in torch.unique(torch.stack([groups, data["arity"]]), dim=1).T.tolist():
            rows.append(torch.nonzero((groups == operator) & (data["arity"] == arity)).squeeze(1))
            is_leaf = operator == NO_OPERATOR
            names = ["token", "number"] if is_leaf else ["children", *inputs, *(f"noise/{name}" for name in self.noise)]
            parts.append(self._group(operator, arity, len(rows[-1]), {name: data[name][rows[-1]] for name in names}))
        order = torch.argsort(torch.cat(rows))
        return {name: torch.cat([part[name] for part in parts])[order] for name in self.shapes}

    def _group(self, operator: int, arity: int, count: int, data: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """State, packed, and signals of nodes that share operator and arity; zeros where there is none."""
        packed = {name: self.like.new_zeros(count, *shape) for name, shape in self.shapes.items()}
        if operator == NO_OPERATOR:
            result = self.cell.leaf(data["token"], data["number"]), dict[str, Tensor]()
        elif operator == self.signature.root_index:
            return packed
        else:
            ops = OneOperator(self.cell, self.signature.names[operator], self.maps)
            children = unpack(data["children"][:, :arity], self.cell.fields)
            noise = {field: data[f"noise/{field}"] for field in self.noise}
            result = self.cell.node(ops, children, data.get("input"), noise)
        state, signals = self.cell.checked(result, count)
        packed["state"] = torch.cat([state[name].flatten(1) for name in self.cell.fields], dim=1)
        for name in signals.keys() & {key.removeprefix("signal/") for key in self.shapes}:
            packed[f"signal/{name}"][:, : signals[name].shape[1]] = signals[name]
        return packed


def unpack(state: Tensor, fields: Mapping[str, Shape]) -> State:
    """The fields in a packed state (..., D): name -> (..., *shape)."""
    sizes = [torch.Size(shape).numel() for shape in fields.values()]
    parts = state.split(sizes, dim=-1)
    return {name: part.unflatten(-1, shape) for (name, shape), part in zip(fields.items(), parts, strict=True)}
