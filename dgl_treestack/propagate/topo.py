"""The reference engine: `dgl.prop_nodes_topo` with one apply-node function, which calls the cell once per group of operators.

The fields of a node are concatenated into one feature, `state` (N, D). A message writes the child's state to the slot that
edge feature `slot` gives, so the order of edges does not matter. The apply-node function groups a frontier by operator,
operators with equal weights in one group, and passes every group to the cell.
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
    graph = graph.formats(FORMATS).to(next(cell.parameters()).device).local_var()  # other threads may use the graph
    step = _Step(graph, cell, signature, signals, noise)
    step.prepare()
    # Built-in functions: a reduce function in Python that sorts the mailbox warns on every frontier of leaves, and is
    # called once per arity.
    _dgl.prop_nodes_topo(
        graph,
        _dgl.function.u_mul_e("state", "one_hot_slot", "message"),
        _dgl.function.sum("message", "children"),
        apply_node_func=step,
    )
    values = {f"signal/{name}": graph.ndata[f"signal/{name}"] for name in signals}
    return {**unpack(graph.ndata["state"], cell.fields), **values}


class _Step:
    """The apply-node function: a frontier's features in, its states and signals out."""

    def __init__(self, graph: DGLGraph, cell: Cell, signature: Signature, signals: Sequence[str], noise: Mapping[str, Tensor]):
        self.graph, self.cell, self.signature, self.signals, self.noise = graph, cell, signature, signals, noise
        self.max_arity = int(graph.edata["slot"].max()) + 1 if graph.num_edges() else 1
        self.maps = {linear: cast(OperatorLinear, linear).maps() for linear in cell.products.values()}
        self.groups = _groups(cell, signature).to(graph.device)
        self.state_width = sum(torch.Size(shape).numel() for shape in cell.fields.values())

    def prepare(self) -> None:
        """Write the features that the sweep reads into the local copy of the graph."""
        like = next(self.cell.parameters())
        for name in ("op", "token"):
            self.graph.ndata[name] = self.graph.ndata[name].long()
        one_hot = functional.one_hot(self.graph.edata["slot"].long(), self.max_arity)
        self.graph.edata["one_hot_slot"] = one_hot.to(like).unsqueeze(2)
        self.graph.ndata["arity"] = self.graph.in_degrees()
        self.graph.ndata["state"] = like.new_zeros(self.graph.num_nodes(), self.state_width)
        for name in self.signals:  # for a graph without nodes, on which no step runs
            self.graph.ndata[f"signal/{name}"] = like.new_zeros(self.graph.num_nodes(), *self._signal_shape(name))
        for name, factors in self.noise.items():
            self.graph.ndata[f"noise/{name}"] = factors

    def __call__(self, nodes: "object") -> dict[str, Tensor]:
        data: Mapping[str, Tensor] = nodes.data  # type: ignore[attr-defined]
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
        like = next(self.cell.parameters())
        packed = {"state": like.new_zeros(count, self.state_width)}
        if state:
            packed["state"] = torch.cat([state[name].flatten(1) for name in self.cell.fields], dim=1)
        for name in self.signals:
            value = like.new_zeros(count, *self._signal_shape(name))
            if name in signals:
                value[:, : signals[name].shape[1]] = signals[name]
            packed[f"signal/{name}"] = value
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
