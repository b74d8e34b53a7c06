"""Labels follow the papers' convention, and what `truth` says stands beside them."""

import contextlib
from collections import Counter

import numpy as np
import pytest

from dgl_treestack import Equation, Vocabulary, judge
from dgl_treestack.generate.presets import Parts, SetOptions, paper_labels
from dgl_treestack.generate.presets.paper_labels import AXIOMS, CORRECT, COUNTS, evaluates_to_true
from dgl_treestack.generate.production import produce
from dgl_treestack.generate.rewrite import load_axioms
from dgl_treestack.truth import judge_at_fixed_points

OPTIONS = SetOptions(seed=4, equations=600)


def test_the_axioms_hold_but_for_the_known_five():
    verdicts = {axiom.name: judge(axiom.equation).verdict for axiom in load_axioms(AXIOMS)}
    doubtful = {name: verdict for name, verdict in verdicts.items() if verdict != "holds"}
    assert doubtful == {**{f"root:{i}": "conditional" for i in range(1, 5)}, "misspelt:1": "refuted"}


def test_counts_are_the_papers_and_what_was_asked_for(made):
    examples = made("paper-labels").examples
    quota = paper_labels.target_counts(SetOptions(seed=0))
    assert sum(COUNTS.values()) == quota.total() == 41894
    assert all(abs(quota[depth, 1] - CORRECT[depth] * COUNTS[depth]) <= 0.5 for depth in COUNTS)
    counts = Counter((example.equation.depth, example.label) for example in examples)
    short = sum(made("paper-labels").manifest["notes"]["fell short"].values())
    planned = paper_labels.target_counts(OPTIONS)
    assert counts <= planned and (planned - counts).total() == short < 0.05 * len(examples)


def test_folds_are_by_depth_and_the_vocabulary_has_every_leaf(made):
    examples = made("paper-labels").examples
    for example in examples:
        assert (example.fold == "test") == (example.equation.depth > 7)
    shallow = Counter(example.fold for example in examples if example.fold != "test")
    assert 0.12 < shallow["validation"] / shallow.total() < 0.28
    vocabulary = Vocabulary.preset("released")
    for kind, text in {(kind, text) for example in examples for _, kind, text in example.equation.leaves()}:
        vocabulary.row(kind, text)


def test_judgements_stand_beside_labels_most_of_which_are_right_and_the_notes_count_the_others(made):
    notes, examples = made("paper-labels").manifest["notes"], made("paper-labels").examples
    for example in examples[::7]:
        assert example.certificate["convention"] == "papers" and "verdict" not in example.certificate
        assert example.certificate["judged"] == judge_at_fixed_points(example.equation).verdict
    counts = Counter((example.label, example.certificate["judged"]) for example in examples)
    assert counts[1, "holds"] > 0.8 * sum(example.label == 1 for example in examples)
    assert counts[0, "refuted"] > 0.8 * sum(example.label == 0 for example in examples)
    for (label, verdict), count in counts.items():
        assert count == sum(notes["judged"][f"label {label}, depth {depths}"].get(verdict, 0) for depths in ("1-7", "8-13"))
    assert not any(evaluates_to_true(example.equation) for example in examples if example.label == 0)


def test_a_mutation_changes_one_place():
    rng = np.random.default_rng(3)
    for axiom in load_axioms(AXIOMS):
        for _ in range(5):
            mutant = paper_labels.single_mutation(axiom.equation, rng)
            assert mutant != axiom.equation and isinstance(mutant, Equation)
            sides = axiom.equation.left == mutant.left, axiom.equation.right == mutant.right
            assert any(sides) and abs(mutant.depth - axiom.equation.depth) <= axiom.equation.depth


@pytest.mark.slow
def test_growth_is_sound_where_the_axioms_are():
    sound = [axiom for axiom in load_axioms(AXIOMS) if axiom.name.split(":")[0] in ("pythagorean", "parity", "order")]
    dictionary = paper_labels.Dictionary(sound, np.random.default_rng(1))
    for equation in filter(None, (dictionary.step() for _ in range(150))):
        if equation.depth < 7:
            dictionary.learn(equation)
            assert judge(equation).verdict in ("holds", "undefined")


FOUND = ["x + x = 2*x", "cos(-x) = cos(x)", "4**half = 2", "sin(pi) = 0"]
NOT_FOUND = ["tan(x) = sin(x)/cos(x)", "1/0 = 1/0", "0**(-1) + x = x + 0**(-1)", "10**(10**10) = 10**(10**10)"]
NOT_FOUND += ["x**(10**10) = x**(10**10)"]


@pytest.mark.parametrize("text", [*FOUND, *NOT_FOUND])
def test_what_sympy_finds_true(text):
    assert evaluates_to_true(Equation.parse(text)) == (text in FOUND)


@pytest.mark.slow
def test_stopped_within_a_round_it_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_labels, "_SHARD", 40)  # several shards in the round that fills up what was missing
    options, save = SetOptions(3, equations=300), Parts.save
    produce("paper-labels", options, tmp_path / "whole")

    def save_until(self, name, rows):
        count = save(self, name, rows)
        if "1-" in name[:3]:
            raise KeyboardInterrupt
        return count

    monkeypatch.setattr(Parts, "save", save_until)
    starts = 0
    while not (tmp_path / "stopped" / "test.jsonl.gz").exists():
        starts += 1
        with contextlib.suppress(KeyboardInterrupt):
            produce("paper-labels", options, tmp_path / "stopped")
    assert starts > 2
    for file in ("train.jsonl.gz", "validation.jsonl.gz", "test.jsonl.gz"):
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
