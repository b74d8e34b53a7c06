"""ListOps and logic: labels computed a second time in another way, published sizes, nothing in two folds."""

import itertools
from collections import Counter

import pytest
from scipy import stats

from dgl_treestack.data import formats
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.language import find
from dgl_treestack.generate.presets import SetOptions, listops, logic

FOLDS = ("train", "validation", "test")


def value(text):
    """The value of a list, innermost lists first, by replacing text."""
    while "[" in text:
        start = text.rindex("[")
        end = text.index("]", start)
        name, *numbers = text[start + 1 : end].split()
        ordered = sorted(map(int, numbers))
        middle = len(ordered) // 2
        result = {
            "MAX": ordered[-1],
            "MIN": ordered[0],
            "MED": ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2,
            "SM": sum(ordered) - sum(ordered) // 10 * 10,
        }[name]
        text = f"{text[:start]}{result}{text[end + 1 :]}"
    return text.strip()


def test_lists_have_their_values_and_are_written_as_binary_trees_too(made):
    lists = made("listops")
    assert lists.manifest["notes"]["missing"] == made("logic").manifest["notes"]["missing"] == 0
    assert [len(lists.files[fold]) for fold in FOLDS] == [1714, 95, 190]
    for example in lists.examples:
        assert example.label == value(str(example.equation))
        tree = example.equation
        assert 1 <= tree.depth < listops.LEVELS
        assert all(2 <= arity <= 5 for arity in tree.arities if arity)
    for fold in FOLDS:
        binary = list(formats.read(lists.folder / f"binary-{fold}.jsonl.gz", find("listops_binary")))
        for tree, example in zip(binary, lists.files[fold], strict=True):
            assert (tree.id, tree.label, tree.fold) == (example.id, example.label, example.fold)
            assert Expression.parse(str(tree.equation), find("listops")) == example.equation  # brackets ( ) are skipped there
            assert " ".join(text for _, _, text in tree.equation.leaves()) == str(example.equation)


@pytest.mark.slow
def test_a_solver_agrees_with_three_hundred_far_lists_and_training_lists_are_short(made):
    lists, lengths, entries = made("listops", far_lists=60), {}, {}
    assert lists.manifest["options"]["far_lists"] == 60 and "far_lists" not in made("listops").manifest["options"]
    assert len(lists.files) == 3 + len(listops.FAR) and len(list(lists.folder.glob("binary-*"))) == len(lists.files)
    for file, examples in lists.files.items():
        assert all(example.label == value(str(example.equation)) for example in examples)
        lengths[file] = [len(str(example.equation).split()) for example in examples]
        entries[file] = {arity for example in examples for arity in example.equation.arities if arity}
        assert file in FOLDS or ({example.fold for example in examples} == {"test"} and len(examples) == 60)
    assert len({str(example.equation) for example in lists.examples}) == len(lists.examples) == 1999 + 300
    for file in FOLDS:
        assert max(lengths[file]) <= 100 and entries[file] == {2, 3, 4, 5}
    for first, last in ((200, 300), (500, 600), (900, 1000)):
        file = f"test-{first}-{last}-tokens"
        assert first < min(lengths[file]) and max(lengths[file]) < last and entries[file] == {2, 3, 4, 5}
    for count in (10, 15):
        file = f"test-{count}-arguments"
        assert min(lengths[file]) >= 100 and max(lengths[file]) <= 1000 and entries[file] == {*range(2, count + 1)}
        assert max(example.equation.depth for example in lists.files[file]) == 8
    assert max(example.equation.depth for example in lists.examples) < listops.LEVELS


def test_lists_are_drawn_as_published():
    """A node below the root and above the last level is a list with probability 1/4; entries and operators are uniform."""
    rng = listops.stream(0, "a")
    lists, leaves, arities, operators = 0, 0, Counter(), Counter()
    for _ in range(4000):
        tree = Expression.from_nodes(listops.draw(rng), find("listops"))
        levels = {0: 1}
        for node in range(tree.size):
            levels |= dict.fromkeys(tree.children(node), levels[node] + 1)
            if levels[node] in range(2, listops.LEVELS):
                lists, leaves = lists + (tree.arities[node] > 0), leaves + (tree.arities[node] == 0)
            if tree.arities[node]:
                arities[tree.arities[node]] += 1
                operators[tree.names[node]] += 1
    assert lists / (lists + leaves) == pytest.approx(0.25, abs=0.01)
    for counts in (arities, operators):
        assert [count / counts.total() for count in counts.values()] == pytest.approx([0.25] * 4, abs=0.02)


def law(level, bounds):
    """The probability of every number of tokens, at most `longest`, and of lists, below a node that is a list with 1/4."""
    if level == bounds.levels:
        return {(1, 0): 1.0}
    below, of_node = law(level + 1, bounds), Counter({(1, 0): 0.75} if level > 1 else {})
    entries = {(0, 0): 1.0}
    for count in range(1, bounds.most + 1):
        longer = Counter()
        for ((tokens, lists), left), ((more, inner), right) in itertools.product(entries.items(), below.items()):
            if tokens + more + 2 <= bounds.longest:
                longer[tokens + more, lists + inner] += left * right
        entries = longer
        for (tokens, lists), probability in entries.items() if count > 1 else ():
            of_node[tokens + 2, lists + 1] += 0.25 / (bounds.most - 1) * probability
    return of_node


def test_far_lists_are_as_likely_as_without_tilting():
    """Tokens and lists of a thousand draws against the probabilities of all trees within the bounds, summed by recursion."""
    rng, drawn, trees, bounds = listops.stream(0, "far"), Counter(), 1000, listops.Bounds(30, 50, 4, 5)
    while drawn.total() < trees:
        if nodes := listops.draw_far(rng, bounds):
            lists = sum(arity > 0 for _, _, arity in nodes)
            drawn[len(nodes) + lists, lists] += 1
    within = {key: probability for key, probability in law(1, bounds).items() if key[0] >= bounds.shortest}
    assert drawn.keys() <= within.keys() and listops.tilted(bounds)[1] > 1.03
    expected = {key: trees * probability / sum(within.values()) for key, probability in within.items()}
    cells = {key for key, count in expected.items() if count >= 5}
    rare = [sum(count for key, count in counts.items() if key not in cells) for counts in (drawn, expected)]
    counts = [*((drawn[key], expected[key]) for key in cells), rare]
    assert len(cells) > 20 and stats.chisquare(*zip(*counts, strict=True)).pvalue > 0.01


def worlds(formula):
    """The assignments at which a formula is true, by recursion over its tree."""
    truths = []
    for values in itertools.product((False, True), repeat=6):
        assignment = dict(zip("abcdef", values, strict=True))

        def truth(i):
            if formula.texts[i] is not None:
                return assignment[formula.texts[i]]  # noqa: B023
            parts = [truth(child) for child in formula.children(i)]
            return not parts[0] if formula.names[i] == "not" else all(parts) if formula.names[i] == "and" else any(parts)

        truths.append(truth(0))
    return truths


def test_pairs_have_their_relations_and_the_published_sizes(made):
    for example in made("logic").examples:
        assert isinstance(example.equation, Equation)
        leaves = {text for _, _, text in example.equation.leaves()}
        assert leaves <= set("abcdef") and len(leaves) <= 4
        left, right = worlds(example.equation.left), worlds(example.equation.right)
        assert 0 < sum(left) < 64 and 0 < sum(right) < 64
        occurring = set(zip(left, right, strict=True))
        both, only_left, only_right, neither = (case in occurring for case in itertools.product((True, False), repeat=2))
        expected = {
            "=": both and not only_left and not only_right and neither,
            "<": both and not only_left and only_right and neither,
            ">": both and only_left and not only_right and neither,
            "^": not both and only_left and only_right and not neither,
            "|": not both and only_left and only_right and neither,
            "v": both and only_left and only_right and not neither,
        }
        assert [name for name, holds in expected.items() if holds] == ([] if example.label == "#" else [example.label])
    sizes = {fold: Counter() for fold in FOLDS}
    for example in made("logic").examples:
        sizes[example.fold][max(operators(example.equation.left), operators(example.equation.right))] += 1
    assert {fold: (min(counts), max(counts)) for fold, counts in sizes.items()} == {
        "train": (0, 6), "validation": (1, 6), "test": (0, 12)
    }  # fmt: skip
    for size, quota in enumerate(logic.quotas(SetOptions(seed=1, equations=2000))):
        assert {fold: count for fold in FOLDS if (count := sizes[fold][size])} == quota
    full = logic.quotas(SetOptions(seed=1))
    assert [quota["test"] for quota in full] == list(logic.TEST) and full[0] == {"test": 6, "train": 30}


def operators(tree):
    return sum(text is None for text in tree.texts)
