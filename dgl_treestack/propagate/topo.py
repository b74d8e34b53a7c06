"""The reference engine: `dgl.prop_nodes_topo` with one apply-node function, which calls the cell once per group of operators.

The fields of a node are concatenated into one feature, `state` (N, D). A message writes the child's state to the slot that
edge feature `slot` gives, so the order of edges does not matter. The apply-node function groups a frontier by operator,
operators with equal weights in one group, and passes every group to the cell. For a cell on a GPU DGL names the frontiers, and
their features are gathered on the GPU.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.cells import PER_CHILD, Cell, Map, OperatorLinear, Shape, State, apply_map
from dgl_treestack.data.wellformed import FORMATS, NO_OPERATOR
from dgl_treestack.expression.operators import Signature


class OneOperator:
    """`Ops` for a group of nodes that share one operator. maps: of all operators, by product."""

    def __init__(self, cell: Cell, operator: str, maps: Mapping[nn.Module, Mapping[str, Map]]):
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
    return {**unpack(features["state"], cell.fields), **{name: features[name] for name in step.signals}}


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
        apply_node_func=step,
    )
    return graph.ndata


def by_frontier(step: "_Step") -> Mapping[str, Tensor]:
    """Return the same features, bit for bit, with the frontiers of DGL on the CPU and the features on the cell's device."""
    graph, features, device = step.graph, dict(step.features), step.like.device
    for frontier in _dgl.topological_nodes_generator(graph):
        children, _, edges = graph.in_edges(frontier, form="all")  # parent after parent
        parents = torch.repeat_interleave(torch.arange(len(frontier)), graph.in_degrees(frontier))
        slots = (parents * step.max_arity + graph.edata["slot"][edges.long()].long()).to(device)
        mailbox = features["state"].new_zeros(len(frontier) * step.max_arity, step.state_width)
        mailbox = mailbox.index_copy(0, slots, features["state"].index_select(0, children.to(device)))
        nodes = frontier.long().to(device)
        data = {name: feature.index_select(0, nodes) for name, feature in features.items()}
        for name, rows in step.of({**data, "children": mailbox.unflatten(0, (len(frontier), step.max_arity))}).items():
            features[name] = features[name].index_copy(0, nodes, rows)
    return features


class _Step:
    """The apply-node function: a frontier's features in, its states and signals out."""

    def __init__(self, graph: DGLGraph, cell: Cell, signature: Signature, signals: Sequence[str], noise: Mapping[str, Tensor]):
        self.graph, self.cell, self.signature, self.noise = graph, cell, signature, noise
        self.signals = {f"signal/{name}": name for name in signals}
        self.max_arity = int(graph.edata["slot"].max()) + 1 if graph.num_edges() else 1
        self.maps = {linear: cast(OperatorLinear, linear).maps() for linear in cell.products.values()}
        self.like = next(cell.parameters())
        self.groups = _groups(cell, signature).to(self.like.device)
        self.state_width = sum(torch.Size(shape).numel() for shape in cell.fields.values())
        self.features = self._features()

    def _features(self) -> dict[str, Tensor]:
        """What the sweep reads of every node, on the cell's device, and its state and signals, which it writes."""
        data, nodes, device = self.graph.ndata, self.graph.num_nodes(), self.like.device
        features = {"op": data["op"].long(), "token": data["token"].long(), "number": data["number"]}
        features["arity"] = self.graph.in_degrees()
        if self.cell.input_size:
            features["input"] = data["input"]
        features |= {f"noise/{name}": factors for name, factors in self.noise.items()}
        features = {name: feature.to(device) for name, feature in features.items()}
        features["state"] = self.like.new_zeros(nodes, self.state_width)
        return features | {key: self.like.new_zeros(nodes, *self._signal_shape(name)) for key, name in self.signals.items()}

    def __call__(self, nodes: "object") -> dict[str, Tensor]:
        return self.of(nodes.data)  # type: ignore[attr-defined]

    def of(self, data: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the states and signals of nodes with these features."""
        groups = self.groups[data["op"]]
        parts, rows = [], []
        for operator, arity in torch.unique(torch.stack([groups, data["arity"]]), dim=1).T.tolist():
            rows.append(torch.nonzero((groups == operator) & (data["arity"] == arity)).squeeze(1))
            parts.append(self._group(operator, arity, {name: data[name][rows[-1]] for name in self._reads(operator)}))
        order = torch.argsort(torch.cat(rows))
        return {name: torch.cat([part[name] for part in parts])[order] for name in parts[0]}

    def _reads(self, operator: int) -> list[str]:
        if operator == NO_OPERATOR:
            return ["op", "token", "number"]
        inputs = ["input"] if self.cell.input_size else []
        return ["op", "children", *inputs, *(f"noise/{name}" for name in self.noise)]

    def _group(self, operator: int, arity: int, data: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """States and signals of nodes that share operator and arity."""
        count = len(data["op"])
        if operator == NO_OPERATOR:
            leaves = self.cell.leaf(data["token"], data["number"])
            return self._pack(*self.cell.checked((leaves, {}), count), count)
        name = self.signature.names[operator]
        if name == self.signature.root:
            return self._pack({}, {}, count)
        children = unpack(data["children"][:, :arity], self.cell.fields)
        noise = {field: data[f"noise/{field}"] for field in self.noise}
        result = self.cell.node(OneOperator(self.cell, name, self.maps), children, data.get("input"), noise)
        return self._pack(*self.cell.checked(result, count), count)

    def _signal_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.max_arity if size == PER_CHILD else size for size in self.cell.signals[name])

    def _pack(self, state: State, signals: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
        packed = {"state": self.like.new_zeros(count, self.state_width)}
        if state:
            packed["state"] = torch.cat([state[name].flatten(1) for name in self.cell.fields], dim=1)
        for key, name in self.signals.items():
            packed[key] = self.like.new_zeros(count, *self._signal_shape(name))
            if name in signals:
                packed[key][:, : signals[name].shape[1]] = signals[name]
        return packed


def _groups(cell: Cell, signature: Signature) -> Tensor:
    """The group of every operator: the index of the first one with equal weights in all products. The last is NO_OPERATOR."""
    first: dict[tuple, int] = {}
    groups = []
    for index, operator in enumerate(signature.operators):
        keys = [maps.keys.get(operator.name) for maps in cell.products.values()]  # type: ignore
        weights = (index,) if None in keys or not keys else (*keys, operator.arity)
        groups.append(first.setdefault(weights, index))
    return torch.tensor([*groups, NO_OPERATOR])


def unpack(state: Tensor, fields: Mapping[str, Shape]) -> State:
    """The fields in a packed state (..., D): name -> (..., *shape)."""
    sizes = [torch.Size(shape).numel() for shape in fields.values()]
    parts = state.split(sizes, dim=-1)
    return {name: part.unflatten(-1, shape) for (name, shape), part in zip(fields.items(), parts, strict=True)}
