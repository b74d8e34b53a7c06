"""Every cell against its equations, written out a second time: one node, plain vectors and matrices, nothing of the package.

The recursive oracle calls `cell.node` and so agrees with any equation. Here every class has a function that follows the
papers and the class's docstring, one child and one row at a time, on weights read out of `cell.products`. It is called as
the file of the class, its keyword arguments are the class's settings with their defaults, and it returns state and signals.
"""

from dataclasses import dataclass
from functools import partial
from math import prod

import pytest
import torch
from each_case import assert_each
from oracle import OneOperator
from torch import Tensor, cat, nn, sigmoid, softmax, stack, tanh

from dgl_treestack import Cell, Operator, Signature, cells
from dgl_treestack.plain_data import settings_of

THREE = Signature("three", tuple(Operator(f"f{arity}", arity) for arity in (1, 2, 3)))
HIDDEN, NODES, WIDTHS, EXACT = 4, 2, (0, 3), 1e-12
ACTIVATIONS = {"sigmoid": sigmoid, "tanh": tanh}


@dataclass(frozen=True)
class Node:
    """One node and the weights of its operator. x is [h_1; ...; h_A; input], in the child-sum form [h_1 + ... + h_A; input]."""

    cell: Cell
    operator: Operator
    children: list[dict[str, Tensor]]
    input: Tensor
    noise: dict[str, Tensor]

    @property
    def x(self):
        return cat([self.joined(self.each("h")), self.input])

    def each(self, field):
        return [child[field] for child in self.children]

    def rows(self, count):
        """S_c[r] = [S_1[r]; ...; S_A[r]] for the topmost rows."""
        return [self.joined([s[r] for s in self.each("stack")]) for r in range(count)]

    def joined(self, vectors):
        return cat(vectors) if self.cell.form == "nary" else sum(vectors)

    def affine(self, product, vector, block=None, shared=False):
        """W v + b, or a block of H rows of it. shared: not one W and b for the operator, but for all of its arity."""
        weight, bias = self._weights(product, block, shared)
        return weight @ vector + bias

    def linear(self, product, vector, block=None):
        """W v of a product without a bias."""
        weight, bias = self._weights(product, block)
        assert bias is None
        return weight @ vector

    def constant(self, product, block=None):
        """b of a product without a weight."""
        weight, bias = self._weights(product, block)
        assert weight is None
        return bias

    def child_block(self, k, product, first, vectors, extra=None):
        """Product, vector and block of the map of child k: n-ary of all children, child-sum of child k alone.

        first: the block of the first child."""
        extra = vectors[0][:0] if extra is None else extra
        if self.cell.form == "nary":
            return product, cat([*vectors, extra]), first + k
        return f"{product}_child", cat([vectors[k], extra]), 0

    def _weights(self, product, block, shared=False):
        parameters = self.cell.products[product].state_dict()
        keys = ("all", f"arity{self.operator.arity}") if shared or self.cell.share == "all" else (self.operator.name,)
        rows = slice(None) if block is None else slice(block * HIDDEN, (block + 1) * HIDDEN)
        names = [[f"{kind}_{key}" for key in keys if f"{kind}_{key}" in parameters] for kind in ("weight", "bias")]
        return [parameters[candidates[0]][rows] if candidates else None for candidates in names]


def updated(a, value, pushed, popped, kept, beyond):
    """Rows after a soft push, pop and, if a has three entries, no-op, each of which moves rows of its own."""
    rows, popped = [], [*popped, beyond]
    for r in range(len(pushed)):
        above = pushed[r - 1] if r else value
        rows.append(a[0] * above + a[1] * popped[r + 1] + (a[2] * kept[r] if len(a) == 3 else 0))
    return stack(rows)


def named(a, prefix=""):
    return {f"{prefix}{name}": gate for name, gate in zip(("push", "pop", "noop"), a, strict=False)}


def tree_rnn(n, layers=1, activation="sigmoid"):
    f = ACTIVATIONS[activation]
    h = f(n.affine("state", n.x))
    for layer in range(2, layers + 1):
        h = f(n.affine(f"layer{layer}", h))
    return {"h": h * n.noise["h"]}, {}


def lstm_gates(n):
    """i, o, u and one f per child, as Tai et al. 2015 have them."""
    i, o = sigmoid(n.affine("gates", n.x, 0)), sigmoid(n.affine("gates", n.x, 1))
    u = tanh(n.affine("gates", n.x, 2)) * n.noise["u"]
    return i, o, u, [sigmoid(n.affine(*n.child_block(k, "gates", 3, n.each("h"), n.input))) for k in range(len(n.children))]


def lstm(n, i, o, u, f):
    c = i * u + sum(f[k] * c_k for k, c_k in enumerate(n.each("c")))
    return {"h": o * tanh(c), "c": c}, {"input": i, "output": o, "forget": stack(f)}


def tree_lstm(n):
    return lstm(n, *lstm_gates(n))


def tree_lstm_two_stacks(n, stack_size=5, top_k=1, printed=False):
    i, o, u, f = lstm_gates(n)
    c = i * u + sum(f[k] * c_k for k, c_k in enumerate(n.each("c"))) + sigmoid(scalar_tops(n, "c_stack", top_k))
    h = o * tanh(c) + sigmoid(scalar_tops(n, "h_stack", top_k))
    c_stack, a_c = scalar_stack(n, "c_stack", c, stack_size, printed)
    h_stack, a_h = scalar_stack(n, "h_stack", h, stack_size, printed)
    signals = {"input": i, "output": o, "forget": stack(f), **named(a_c, "c_"), **named(a_h, "h_")}
    return {"h": h, "c": c, "c_stack": c_stack, "h_stack": h_stack}, signals


def tree_rnn_scalar_stack(n, stack_size=5, top_k=1, printed=False, activation="sigmoid"):
    h = ACTIVATIONS[activation](n.affine("state", n.x) + scalar_tops(n, "stack", top_k))
    s, a = scalar_stack(n, "stack", n.x, stack_size, printed)
    return {"h": h * n.noise["h"], "stack": s}, named(a)


def scalar_tops(n, field, k):
    """P s_C^k, s_C^k = [s_1^k; ...; s_A^k]: the k topmost numbers of one child after the other."""
    return n.linear(f"{field}_read", n.joined([s[:k, 0] for s in n.each(field)]))


def scalar_stack(n, field, controller, size, printed):
    """Eq. 3-6 of the note of March 2019: the stack and its actions. printed: a sigma around what pops to the top alone."""
    a = softmax(n.linear(f"{field}_actions", controller), 0).split(1)
    moved = [n.linear(f"{field}_rows", n.joined([s[r] for s in n.each(field)])) for r in range(size)]
    pushed = [sigmoid(d[:1]) for d in moved]
    popped = [d[1:] if printed and r > 1 else sigmoid(d[1:]) for r, d in enumerate(moved)]
    value = sigmoid(n.linear(f"{field}_value", controller))
    return updated(a, value, pushed, popped, None, torch.zeros(1)), a


def tree_rnn_stack(n, stack_size=5, noop=False, top_k=1, activation="sigmoid"):
    a = softmax(n.affine("actions", n.x), 0).split(1)
    u = sigmoid(n.affine("state", n.x, 1)) * n.noise["u"]
    moved = [[sigmoid(n.affine("rows", row, action)) for row in n.rows(stack_size)] for action in range(2 + noop)]
    s = updated(a, u, moved[0], moved[1], moved[-1], torch.zeros(HIDDEN))
    p = sigmoid(n.affine("read", n.x))
    h = ACTIVATIONS[activation](n.affine("state", n.x, 0) + sum(p[r] * s[r] for r in range(top_k)))
    return {"h": h, "stack": s}, named(a)


def tree_rnn_stack_released(n, stack_size=5, noop=False, top_k=1, activation="sigmoid"):
    tops = n.joined([cat([s[r] for r in range(top_k)]) for s in n.each("stack")])
    h = ACTIVATIONS[activation](n.affine("state", n.x) + n.linear("read", tops)) * n.noise["h"]
    a = softmax(n.affine("actions", n.x, shared=True), 0).split(1)
    u = sigmoid(n.affine("value", n.x, shared=True))
    moved = [[sigmoid(n.affine("rows", row, j, shared=True)) for row in n.rows(stack_size)] for j in range(2 + noop)]
    beyond = sigmoid(n.affine("rows", torch.zeros_like(n.rows(1)[0]), 1, shared=True))
    return {"h": h, "stack": updated(a, u, moved[0], moved[1], moved[-1], beyond)}, named(a)


def smu_gates(n, noop, normalise, activation):
    """u, o, the actions and one f per child, in the order in which their matrices are stacked."""
    u = ACTIVATIONS[activation](n.affine("gates", n.x, 0)) * n.noise["u"]
    o = sigmoid(n.affine("gates", n.x, 1))
    a = [sigmoid(n.affine("gates", n.x, 2 + action)) for action in range(2 + noop)]
    if normalise != "none":
        a = [gate.exp() if normalise == "softmax" else gate for gate in a]
        a = [gate / sum(a) for gate in a]
    f = [sigmoid(n.affine(*n.child_block(k, "gates", 4 + noop, n.each("h"), n.input))) for k in range(len(n.children))]
    return u, o, a, f


def smu_output(n, o, rows, top_k, activation):
    p = sigmoid(n.affine("read", n.x)) if top_k > 1 else [1]
    return o * ACTIVATIONS[activation](sum(p[r] * rows[r] for r in range(top_k)))


def tree_smu(n, stack_size=5, noop=True, normalise="sum", top_k=1, activation="tanh"):
    u, o, a, f = smu_gates(n, noop, normalise, activation)
    s_c = [sum(f[k] * s[r] for k, s in enumerate(n.each("stack"))) for r in range(stack_size)]
    s = updated(a, u, s_c, s_c, s_c, torch.zeros(HIDDEN))
    return {"h": smu_output(n, o, s, top_k, activation), "stack": s}, {**named(a), "output": o, "forget": stack(f)}


def tree_queue(n, stack_size=5, noop=True, normalise="sum", top_k=1, activation="tanh"):
    u, o, a, f = smu_gates(n, noop, normalise, activation)
    q_c = [sum(f[k] * q[r] for k, q in enumerate(n.each("stack"))) for r in range(stack_size)]
    t_c = [1 - prod(1 - t[r] for t in n.each("filled")) for r in range(stack_size)]
    e = [(1 - t_c[r]) * prod(t_c[:r]) for r in range(stack_size)]
    q, t = queued(a, q_c, [e_r * u for e_r in e]), queued(a, t_c, e)
    return {"h": smu_output(n, o, q, top_k, activation), "stack": q, "filled": t}, {**named(a), "output": o, "forget": stack(f)}


def queued(a, rows, joining):
    """Rows after `joining` was added, the front left and, if a has three entries, nothing happened."""
    behind = [*rows[1:], torch.zeros(HIDDEN)]
    unmoved_rows = [a[2] * row if len(a) == 3 else 0 for row in rows]
    return stack([a[0] * (rows[r] + joining[r]) + a[1] * behind[r] + unmoved_rows[r] for r in range(len(rows))])


def z_of(n, stack_size):
    """z_k = h_k + P S_k[0], without a stack h_k: what Mali 2021, eq. 17, sums."""
    return [child["h"] + n.linear("read", child["stack"][0]) if stack_size else child["h"] for child in n.children]


def with_stack(n, state, signals, stack_size=0, noop=True, controller="h", combine="gates", empty=0.0, gain=1.0):
    """Mali 2021, eq. 16, 18 and 19, after the state is known. gain: of initial values, nothing to an equation."""
    if not stack_size:
        return state, signals
    children = range(len(n.children))
    a = softmax(n.affine("actions", n.x if controller == "x" else state["h"]), 0).split(1)
    assert len(a) == 2 + noop
    v = sigmoid(n.linear("value", state["h"])) * n.noise["v"]
    g = [1 / len(children) if combine == "mean" else 1 for _ in children]
    if combine == "gates":
        g = [sigmoid(n.affine(*n.child_block(k, "combine", 0, n.each("h"), n.input))) for k in children]
        signals = {**signals, "combine": stack(g)}
    s_c = [sum(g[k] * s[r] for k, s in enumerate(n.each("stack"))) for r in range(stack_size)]
    s = updated(a, v, s_c, s_c, s_c, torch.full_like(v, empty))
    return {**state, "stack": s}, {**signals, **named(a)}


def mtree_rnn(n, stack_size=0, **settings):
    product = n.linear("x", n.x) * n.linear("z", sum(z_of(n, stack_size)))
    return with_stack(n, {"h": tanh(product + n.constant("bias")) * n.noise["h"]}, {}, stack_size, **settings)


def tree_rnn_second_order(n, linear=False, factors="sum", stack_size=0, **settings):
    z, bilinear = z_of(n, stack_size), factors == "bilinear"
    first, second = (sum(z[:-1]) if len(z) > 1 else z[0], n.each("h")[-1]) if bilinear else (sum(z), n.x)
    product = n.linear("tensor", second).reshape(HIDDEN, HIDDEN)  # sum_b W[l, a, b] second[b]
    inner = sum(product[:, a] * first[a] for a in range(HIDDEN)) + n.constant("bias")
    if linear:
        inner = inner + n.linear("linear", n.x)
    elif bilinear and len(n.input):
        inner = inner + n.linear("input", n.input)
    return with_stack(n, {"h": tanh(inner) * n.noise["h"]}, {}, stack_size, **settings)


def mtree_lstm(n, mixing="multiplicative", stack_size=0, **settings):
    mixed, z = n.linear("mix_x", n.x), z_of(n, stack_size)
    if mixing == "krause":
        m = [mixed * n.linear("mix_zhat", z_k) for z_k in z]
    elif mixing == "first_order":
        m = [mixed + n.linear("mix_zhat", mixed + n.linear("mix_z", z_k)) for z_k in z]
    else:
        m = [mixed * n.linear("mix_zhat", tanh(mixed + n.linear("mix_z", z_k))) for z_k in z]
    i, o, u = (n.linear("gates_x", n.x, gate) + n.affine("gates_m", n.joined(m), gate) for gate in range(3))
    f = [sigmoid(n.linear("gates_x", n.x, 3) + n.affine(*n.child_block(k, "gates_m", 3, m))) for k in range(len(m))]
    return with_stack(n, *lstm(n, sigmoid(i), sigmoid(o), tanh(u) * n.noise["u"], f), stack_size, **settings)


def mi_tree_lstm(n, integration="general", stack_size=0, **settings):
    def mi(gate, b):
        a = n.linear("gates_x", n.x, gate)
        if integration == "general":
            return n.constant("alpha", gate) * a * b + n.constant("beta1", gate) * b + n.constant("beta2", gate) * a
        return a * b if integration == "printed" else a + b

    z, k_bias = z_of(n, stack_size), n.cell.form == "nary"
    i, o, u = (mi(gate, n.linear("gates_z", n.joined(z), gate)) + n.constant("bias", gate) for gate in range(3))
    preactivations = [mi(3, n.linear(*n.child_block(k, "gates_z", 3, z))) for k in range(len(z))]
    f = [sigmoid(preactivations[k] + n.constant("bias", 3 + k * k_bias)) for k in range(len(z))]
    return with_stack(n, *lstm(n, sigmoid(i), sigmoid(o), tanh(u) * n.noise["u"], f), stack_size, **settings)


def tree_slots(n, slots=0, inner=0, mixed=False, normalise=True, layers=2, shared=True):
    slots = slots or 2  # the largest number that leaves two numbers per slot
    children = [h.reshape(slots, -1) for h in n.each("h")]
    dropped, h = n.noise["h"].reshape(slots, -1), []
    for k in range(slots):
        own = "" if shared else str(k)
        parts = [cat([child[k], child.mean(0)]) if mixed else child[k] for child in children]
        x = cat([n.joined(parts), n.input])
        y = n.affine(f"skip{own}", x)
        if layers == 2:
            up = n.affine(f"up{own}", x)
            a, b = up[: len(up) // 2], up[len(up) // 2 :]
            y = y + n.affine(f"down{own}", a * sigmoid(a) * b)
        y = y * dropped[k]
        h.append(y / (y.square().mean() + 1e-6).sqrt() if normalise else y)
    return {"h": cat(h)}, {}


MALI = (mi_tree_lstm, mtree_lstm, mtree_rnn, tree_rnn_second_order)
STACKS = (tree_lstm_two_stacks, tree_queue, tree_rnn_scalar_stack, tree_rnn_stack, tree_rnn_stack_released, tree_smu)
BY_FILE = (tree_lstm, tree_rnn, tree_slots, *STACKS, *MALI)
EQUATIONS = {function.__name__: function for function in BY_FILE}  # by the file of the class


def grid(**choices):
    """One setting after the other, each with all its values."""
    return [{setting: value} for setting, values in choices.items() for value in values]


TOPS = [{"stack_size": size, "top_k": k} for size in (1, 2, 5) for k in (1, 2, 3) if k <= size]
SCALARS = [{**tops, "printed": printed} for tops in TOPS for printed in (False, True)]
ROWS = [*TOPS, *grid(noop=(False, True), activation=ACTIVATIONS)]
NORMALISED = [{"normalise": choice, "noop": noop} for choice in ("sum", "softmax") for noop in (False, True)]
READINGS = grid(combine=("sum", "mean"), controller=("x",), noop=(False,), empty=(-1.0,))
BESIDE = [{"stack_size": 5, **reading} for reading in READINGS]
BESIDE += [{"stack_size": size, "empty": -1.0} for size in (1, 2)]
FURTHER = {  # model -> settings beside those of model names
    "mi_tree_lstm": [*BESIDE, {"integration": "printed", "stack_size": 5}],
    "mtree_lstm": [*BESIDE, {"mixing": "krause", "stack_size": 5}],
    "mtree_rnn": [*BESIDE, {"gain": 0.3}],
    "tree_lstm_two_stacks": SCALARS,
    "tree_queue": [*ROWS, *NORMALISED],
    "tree_rnn": [{"layers": 3, **choice} for choice in grid(activation=ACTIVATIONS)],
    "tree_rnn_scalar_stack": [*SCALARS, *grid(activation=ACTIVATIONS)],
    "tree_rnn_second_order": [*BESIDE, {"gain": 0.3}, {"linear": True, "stack_size": 5}],
    "tree_rnn_second_order_bilinear": [{"linear": True}, {"stack_size": 5}],
    "tree_rnn_stack": ROWS,
    "tree_rnn_stack_released": ROWS,
    "tree_slots": grid(slots=(1, 4), inner=(3,), mixed=(True,), normalise=(False,), layers=(1,), shared=(False,)),
    "tree_smu": [*ROWS, *NORMALISED, {"normalise": "none"}, {"share": "all"}],
}
NAMED = {name: [{}] for name in sorted(cells.models())}


def in_each_form(cases):
    """Every model with its settings in both forms, but for factors that are told apart and cannot be summed."""
    for name, settings in ((name, settings) for name, choices in cases.items() for settings in choices):
        label = ",".join([name, *(f"{key}={value}" for key, value in settings.items())])
        forms = cells.FORMS[:1] if cells.models()[name].settings.get("factors") == "bilinear" else cells.FORMS
        yield from ((f"{label}-{form}", name, {**settings, "form": form}) for form in forms)


def make(name, width, settings, generator):
    """A cell all of whose parameters are drawn, so that none is a zero or a one that could be left out."""
    cell = cells.build(name, THREE.inner, 2, HIDDEN, input_size=width, **settings).double().requires_grad_(False)
    for parameter in cell.parameters():
        nn.init.normal_(parameter, 0.0, 0.4, generator=generator)
    return cell


def frontier(cell, arity, width, generator, dropout):
    """Children, external input and noise of some nodes. How far a queue's rows are taken falls from the front on."""
    children = {}
    for field, shape in cell.fields.items():
        children[field] = torch.randn((NODES, arity, *shape), dtype=torch.float64, generator=generator)
    if "filled" in children:
        children["filled"] = sigmoid(children["filled"]).sort(dim=2, descending=True).values
    noise = {field: torch.rand((NODES, *shape), generator=generator) for field, shape in cell.noise.items()}
    factors = {field: 1.25 * (x < 0.6).double() if dropout else torch.ones_like(x) for field, x in noise.items()}
    return children, torch.randn(NODES, width, dtype=torch.float64, generator=generator), factors


def file_of(cell):
    return cell.__module__.rpartition(".")[2]


def assert_follows(name, settings, dropout=False):
    generator = torch.Generator().manual_seed(1)
    all_settings = {**cells.models()[name].settings, **settings}
    settings_of_class = {key: x for key, x in all_settings.items() if key not in (*cells.COMMON, "form")}
    for width in WIDTHS:
        cell = make(name, width, settings, generator)
        file = file_of(type(cell))
        assert file in EQUATIONS, f"No equations of {file}.py: add a function {file} to tests/cells/test_equations.py"
        for operator in THREE.inner:
            children, inputs, noise = frontier(cell, operator.arity, width, generator, dropout)
            results = cell.node(OneOperator(cell, operator.name), children, inputs if width else None, noise if dropout else {})
            for i in range(NODES):
                below = [{field: x[i, k] for field, x in children.items()} for k in range(operator.arity)]
                node = Node(cell, operator, below, inputs[i], {field: x[i] for field, x in noise.items()})
                for result, expected in zip(results, EQUATIONS[file](node, **settings_of_class), strict=True):
                    assert set(result) == set(expected)
                    for key, x in expected.items():
                        torch.testing.assert_close(result[key][i], x, rtol=EXACT, atol=EXACT, msg=f"{key} of {operator.name}")


@pytest.mark.parametrize("dropout", [False, True])
def test_a_node_follows_its_equations(dropout):
    assert_each(partial(assert_follows, dropout=dropout), in_each_form(NAMED))


@pytest.mark.slow
def test_settings_follow_the_equations():
    assert_each(assert_follows, in_each_form(FURTHER))


def test_every_setting_of_every_class_is_tried():
    models = cells.models()
    tried = {(models[name].cell, setting) for name, choices in FURTHER.items() for settings in choices for setting in settings}
    tried |= {(model.cell, setting) for model in models.values() for setting in model.settings}
    settings = {(model.cell, key) for model in models.values() for key in settings_of(model.cell)}
    assert {key for key in settings - tried if key[1] not in (*cells.COMMON, "form")} == set()
    assert set(EQUATIONS) == {file_of(model.cell) for model in models.values()}
