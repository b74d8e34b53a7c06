"""The papers' convention: equations grown from axioms that do not all hold, never verified, and single mutations of them.

A label here is what the papers would have assigned; the verdict of `truth` on the same equation is in its certificate. Depths
and the share of correct equations follow Mali et al. (2021), Table 1. A single mutation is labelled incorrect, unless SymPy's
automatic evaluation finds it true; then it is labelled correct, and becomes a rule.

Mutations leak: a change adds or removes tokens on one side, and prefers functions that no correct equation has, so a random
forest that only counts tokens per side classifies four in five equations correctly.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import sympy

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.grow import BINARY, UNARY, VARIABLES
from dgl_treestack.generate.nodes import Node, Pool, find, to_expression
from dgl_treestack.generate.presets import Cell, Deal, Parts, Preset, Product, Row, SetOptions, Shard, pick, stream
from dgl_treestack.generate.presets.paper import COUNTS, TRAINING_DEPTH
from dgl_treestack.generate.rewrite import AXIOMS as IDENTITIES
from dgl_treestack.generate.rewrite import Axiom, apply_to_both, instantiate, load_axioms, match
from dgl_treestack.truth import judge_at_fixed_points

AXIOMS = IDENTITIES.with_name("axioms_paper.txt")
CORRECT = dict(enumerate((0.52, 0.57, 0.62, 0.61, 0.58, 0.56, 0.54, 0.52, 0.52, 0.49, 0.50, 0.50, 0.50), start=1))
SHALLOW = 3  # up to this depth one shard generates all equations, because several would find the same few
VALIDATION_SHARE = 0.2

_SHARD = 1000  # equations
_ROUNDS = 4  # of shards; all but the first replace equations that several shards found
_BUDGET = 4000  # operations in 80 digits for a judgement

Quota = Counter[Cell]  # equations per depth and label
# Leaf class -> the texts it may have; a constant is drawn by class first.
CONSTANTS: dict[str, tuple[str, ...]] = {
    "NegativeOne": ("-1",),
    "One": ("1",),
    "Half": ("1/2",),
    "Pi": ("pi",),
    "Integer": ("0", "2", "3", "4", "10"),
    "Rational": ("2/5",),
    "Float": ("0.7",),
}
TRIES = 10  # nodes to examine until a rule fits
MOST_NODES = 80  # of an equation
STEPS = 60  # attempts per equation of the quota
STONES = 150  # stepping stones: equations of a depth without quota, from which deeper ones are grown
LARGEST = 10**12  # numbers in SymPy
LARGEST_POWER = 40  # exponents that are numbers

_CLASSES = {operator.name: getattr(sympy, operator.name) for operator in MATH.inner}
_UNDEFINED = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)


class PaperLabels(Preset):
    summary = "the papers' convention: axioms with both signs of the roots, single mutations, labels never verified"
    seed = 2018

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        """A round has one shard of shallow equations, and shards of equal size of the others."""
        target = requested = target_counts(options)
        names = list[str]()
        for round_number in range(_ROUNDS):
            shallow = Counter({cell: count for cell, count in requested.items() if cell[0] <= SHALLOW})
            deep = requested - shallow
            shares, number_of_shares = [shallow], max(1, round(deep.total() / _SHARD)) if deep else 0
            for i in range(number_of_shares):
                ends = {cell: (n * i // number_of_shares, n * (i + 1) // number_of_shares) for cell, n in deep.items()}
                shares.append(Counter({cell: end - start for cell, (start, end) in ends.items() if end > start}))
            shards = [
                Shard(f"{round_number}-{i:03d}", {"quota": [[*cell, count] for cell, count in sorted(share.items())]})
                for i, share in enumerate(shares)
                if share
            ]
            yield shards
            names += [shard.name for shard in shards]
            rng = stream(options.seed, "folds")
            plan = {}
            for cell, count in target.items():
                is_validation = (rng.random() < VALIDATION_SHARE for _ in range(count))  # drawn when its row comes
                folds = ("test", "test") if cell[0] > TRAINING_DEPTH else ("train", "validation")
                plan[cell] = map(folds.__getitem__, is_validation)
            dealt = Deal(parts.rows(*sorted(names)), plan, "p")
            missing = target - dealt.kept
            if not missing:
                break
            # A new shard first finds equations that exist already, so it gets a larger quota than is missing.
            requested = Counter({cell: 3 * count + 3 for cell, count in missing.items()})
        judged = dict[str, Counter[str]]()
        for label, fold in product((1, 0), dealt.lines):
            verdicts = judged.setdefault(f"label {label}, depth {'8-13' if fold == 'test' else '1-7'}", Counter())
            verdicts.update(line["certificate"]["judged"] for line in dealt.lines[fold] if line["label"] == label)
        notes = {
            "labels": "the papers', not verified; a single mutation leaves traces that a model without recursion can see",
            "judged": {name: dict(sorted(counts.items())) for name, counts in judged.items()},
            "fell short": {f"depth {depth}, label {label}": count for (depth, label), count in sorted(missing.items())},
        }
        return dealt.files, notes

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        quota: Quota = Counter({(depth, label): count for depth, label, count in shard.work["quota"]})
        for equation, label in unverified(load_axioms(AXIOMS), quota, stream(options.seed, shard.name)):
            certificate = {"convention": "papers", "judged": judge_at_fixed_points(equation, _BUDGET).verdict}
            line = to_dict(Example(equation, label, fold="train", certificate=certificate))
            yield {"keys": [canonical_key(equation)], "cell": [equation.depth, label], "lines": [line]}


PRESET = PaperLabels()


def target_counts(options: SetOptions) -> Quota:
    """Return the number of equations of each depth and label."""
    scale, quota = options.scale(sum(COUNTS.values())), Quota()
    for depth, count in COUNTS.items():
        total = max(2, round(scale * count))
        quota[depth, 1] = round(CORRECT[depth] * total)
        quota[depth, 0] = total - quota[depth, 1]
    return quota


def unverified(axioms: Iterable[Axiom], quota: Mapping[Cell, int], rng: np.random.Generator) -> Iterator[tuple[Equation, int]]:
    """Yield different equations with labels until a quota is filled: correct ones, then mutants of those accepted so far."""
    axioms = sorted(axioms, key=lambda axiom: axiom.equation.depth)  # x = x comes before 0 + x = x
    dictionary, seen, left = Dictionary(axioms, rng), set[str](), Counter(quota)
    deepest = max(depth for depth, _ in left)
    stones = Counter({depth: STONES for depth in range(1, deepest) if not left[depth, 1]})

    def is_wanted(equation: Equation, *labels: int) -> bool:
        """Return whether an equation is new, small enough, and within the quota or a possible stepping stone."""
        depth = equation.depth
        has_room = any(left[depth, label] > 0 for label in labels) or (1 in labels and stones[depth] > 0)
        if depth > deepest or equation.size > MOST_NODES or not has_room:
            return False
        key = canonical_key(equation)
        is_new = key not in seen
        seen.add(key)
        return is_new

    for axiom in axioms:
        key = canonical_key(axiom.equation)
        if key not in seen and left[axiom.equation.depth, 1] > 0:
            left[axiom.equation.depth, 1] -= 1
            yield axiom.equation, 1
        seen.add(key)
    for _ in range(STEPS * sum(count for (_, label), count in left.items() if label == 1)):
        if not any(count > 0 for (_, label), count in left.items() if label == 1):
            break
        equation = dictionary.step()
        if equation is None or not is_wanted(equation, 1):
            continue
        dictionary.learn(equation)
        if left[equation.depth, 1] > 0:
            left[equation.depth, 1] -= 1
            yield equation, 1
        else:
            stones[equation.depth] -= 1
    for _ in range(STEPS * sum(count for (_, label), count in left.items() if label == 0)):
        if not any(count > 0 for count in left.values()):
            break
        mutant = single_mutation(pick(dictionary.equations, rng), rng)
        if not is_wanted(mutant, 0, 1):
            continue
        label = int(evaluates_to_true(mutant))
        if label:
            dictionary.learn(mutant)
        if left[mutant.depth, label] > 0:
            left[mutant.depth, label] -= 1
            yield mutant, label


class Dictionary:
    """Equations that are accepted as correct, and their rules, in one pool and from one random stream.

    Every accepted equation becomes a rule in both directions. Nothing is verified: a rule that does not hold everywhere, or a
    rewrite into a division by zero, gives wrong equations that are labelled correct. Unlike in the papers' matching, a repeated
    variable of a rule matches equal subtrees.
    """

    def __init__(self, axioms: Iterable[Axiom], rng: np.random.Generator):
        self.rng, self.pool = rng, Pool()
        self.equations: list[Equation] = []
        self._rules: dict[str, list[tuple[Node, Node]]] = {}  # label of a source's root -> source and target
        for axiom in axioms:
            self.learn(axiom.equation)

    def learn(self, equation: Equation) -> None:
        """Accept an equation as correct."""
        self.equations.append(equation)
        left, right = self.pool.tree(equation).children
        for source, target in ((left, right), (right, left)):
            if source is not target:
                self._rules.setdefault("" if source.name == "Symbol" else source.label, []).append((source, target))

    def step(self) -> Equation | None:
        """Change an accepted equation at a random node: the root by an operator with the same operand on both sides, any other
        node by a rule. Return None when no rule fits."""
        root = self.pool.tree(pick(self.equations, self.rng))
        for _ in range(TRIES):
            index = int(self.rng.integers(root.size))
            if not index:
                name = pick(BINARY, self.rng)
                is_constant = self.rng.random() < 0.5
                operand = constant(self.rng) if is_constant else Expression.leaf("Symbol", fresh(root.variables, self.rng))
                before = self.rng.random() < 0.5
                operands = 2 * (self.pool.tree(operand),)
                return to_expression(apply_to_both(self.pool, name, root, operands, 0 if before else 1), Equation)
            node = find(root, index)
            # rules with a bare variable as source are tried on leaves only; otherwise trees would only grow
            rules = self._rules.get(node.label, []) + ([] if node.children else self._rules.get("", []))
            matches = [(target, bound) for source, target in rules if (bound := match(source, node)) is not None]
            if matches:
                target, bindings = pick(matches, self.rng)
                new = instantiate(
                    self.pool, target, bindings, lambda: self.pool.leaf("Symbol", fresh(root.variables, self.rng))
                )
                return to_expression(self.pool.replace(root, index, new), Equation)
        return None


def single_mutation(equation: Equation, rng: np.random.Generator) -> Equation:
    """Return the equation with one node grown, shrunk or replaced with equal probability; instead of shrinking, a leaf is
    replaced. The root does not change. The result may still hold.

    >>> import numpy as np
    >>> equation = Equation.parse("sin(x) = 1/csc(x)")
    >>> single_mutation(equation, np.random.default_rng(0)) != equation
    True
    """
    node = int(rng.integers(1, equation.size))
    name, subtree = equation.names[node], equation.subtree(node)
    children = [subtree.subtree(child) for child in subtree.children(0)]
    variables = list(dict.fromkeys(text for _, kind, text in equation.leaves() if kind == "Symbol"))
    change = pick(("grow", "shrink", "replace"), rng)
    if change == "grow" and rng.random() < 0.5:
        mutant = Expression.node(pick(UNARY, rng), subtree)
    elif change == "grow":
        is_variable = bool(variables) and rng.random() < 0.5
        operand = Expression.leaf("Symbol", pick(variables, rng)) if is_variable else constant(rng)
        mutant = Expression.node(pick(BINARY, rng), subtree, operand)
    elif change == "shrink" and children:
        mutant = pick(children, rng)
    elif children:
        operators = UNARY if len(children) == 1 else BINARY
        mutant = Expression.node(pick([operator for operator in operators if operator != name], rng), *children)
    elif name == "Symbol":
        options = [variable for variable in variables if variable != equation.texts[node]] or [fresh(variables, rng)]
        mutant = Expression.leaf("Symbol", pick(options, rng))
    else:
        mutant = constant(rng, other_than=name)
    return equation.replace(node, mutant)


def constant(rng: np.random.Generator, other_than: str = "") -> Expression:
    """Draw a constant leaf of a class other than the one named."""
    kind = pick([kind for kind in CONSTANTS if kind != other_than], rng)
    return Expression.leaf(kind, pick(CONSTANTS[kind], rng))


def fresh(used: Sequence[str], rng: np.random.Generator) -> str:
    """Return the first variable that is not used, or any of them if all are."""
    return next((name for name in VARIABLES if name not in used), pick(VARIABLES, rng))


def evaluates_to_true(equation: Expression) -> bool:
    """Return whether SymPy's automatic evaluation, without simplification, finds an equation true: the papers' test of mutants.

    It is true if both sides evaluate to the same object, or their difference to 0. Undefined sides are not true. SymPy does not
    bound the size of numbers: 10**(10**10) would be computed. An equation with too large a number counts as not evaluated;
    unlike a time limit, this depends on the equation alone.

    >>> evaluates_to_true(Expression.parse("x + x = 2*x")), evaluates_to_true(Expression.parse("sin(x)**2 = 1 - cos(x)**2"))
    (True, False)
    """
    stack: list[Any] = []
    try:
        for i in range(equation.size - 1, 0, -1):
            name = equation.names[i]
            if equation.texts[i] is not None:
                stack.append(equation.subtree(i).to_sympy())
                continue
            arguments = [stack.pop() for _ in range(equation.arities[i])]
            if name == "Pow" and arguments[1].is_Number and not abs(arguments[1]) <= LARGEST_POWER:
                return False
            value = _CLASSES[name](*arguments)
            for number in [value] if value.is_Number else value.args[:1]:
                if number.is_Number and not abs(number) <= LARGEST:
                    return False
            stack.append(value)
        right, left = stack
        is_undefined = left.has(*_UNDEFINED) or right.has(*_UNDEFINED)
        return not is_undefined and bool(left == right or left - right == 0)
    except Exception:  # SymPy raises many classes of errors on unusual expressions; by the papers' rule they are not true
        return False
