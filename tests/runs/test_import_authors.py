import json
import math
import os
import pickle
import zipfile

import pytest
import torch
from each_case import assert_raises

from dgl_treestack import MATH, Equation, Example, Run
from dgl_treestack.cli.verify import verify
from dgl_treestack.errors import CheckpointError, ConfigurationError
from dgl_treestack.runs.import_authors import FAMILIES, import_checkpoint, read_checkpoint

HIDDEN = 3


def released(family):
    """A checkpoint as the authors write them, with random numbers."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    tensors = {"bias": draw(1), "Symbol.weight": draw(34, HIDDEN)}
    for name, sizes in {"enc": (1, HIDDEN, HIDDEN), "dec": (HIDDEN, HIDDEN, 1)}.items():
        for layer in (1, 2):
            tensors[f"Number_{name}.linear{layer}.weight"] = draw(sizes[layer], sizes[layer - 1])
            tensors[f"Number_{name}.linear{layer}.bias"] = draw(sizes[layer])
    for operator in MATH.inner:
        for block in family.blocks[operator.arity]:
            for name in block.weights:
                width = HIDDEN * operator.arity // len(block.weights)
                tensors[name.format(operator.name)] = draw(HIDDEN, width)
            tensors[block.bias.format(operator.name)] = draw(HIDDEN)
    return tensors


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model)
def test_class_and_sizes_are_read_off_the_file(tmp_path, family):
    torch.save(released(family), tmp_path / "a.checkpoint", _use_new_zipfile_serialization=False)
    import_checkpoint(tmp_path / "a.checkpoint", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert (run.config.model.name, run.config.model.hidden) == (family.model, HIDDEN)
    assert (run.environment["imported_from"], run.environment["preset"]) == ("a.checkpoint", "scripts")
    assert len(run.load_model().vocabulary) == 34 == len(run.load_model().cell.leaves.table)
    assert run.config.model.settings.get("stack_size", 5) == 5


def test_stack_size_can_be_chosen_and_is_recorded(tmp_path):
    torch.save(released(FAMILIES[0]), tmp_path / "a.checkpoint")
    run = import_checkpoint(tmp_path / "a.checkpoint", tmp_path / "run", stack_size=2)
    assert Run.open(run.folder).load_model().cell.fields["stack"] == (2, HIDDEN)
    for folder, options, message in (
        ("other", {"preset": "script"}, "Unknown preset"),
        ("other", {"stack_size": 0}, "'stack_size' is 0"),
        ("run", {}, "is not empty"),
    ):
        assert_raises(ConfigurationError, message, import_checkpoint, tmp_path / "a.checkpoint", tmp_path / folder, **options)
        assert not (tmp_path / "other").exists()


def test_verify_asks_the_verification_head_even_about_numbers(tmp_path, capsys):
    torch.save(released(FAMILIES[1]), tmp_path / "a.checkpoint")
    run = import_checkpoint(tmp_path / "a.checkpoint", tmp_path / "run")
    equation = Equation.parse("sin(1.5) = 0.99")
    dataset = run.load_model().prepare([Example(equation, 1, "a")])
    assert dataset.task.tolist() == [0]  # function evaluation comes first
    verify((str(equation),), run=run.folder, json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["probability"] == pytest.approx(1 / (1 + math.exp(-answer["score"])))


class Malicious:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("legacy", [True, False, "bare"])
def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path, legacy):
    path, trace = tmp_path / "evil.checkpoint", tmp_path / "ran"
    payload = {"Symbol.weight": Malicious(f"touch {trace}")}
    if legacy == "bare":
        path.write_bytes(pickle.dumps(payload))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=not legacy)
    assert_raises(CheckpointError, "nothing in it was run", import_checkpoint, path, tmp_path / "run")
    assert not trace.exists()
    assert not (tmp_path / "run").exists()


def test_other_files_are_refused(tmp_path):
    path, tensors = tmp_path / "a.checkpoint", released(FAMILIES[2])
    for content, message in (
        *((content, "refused") for content in (b"", b"not a checkpoint at all", b"{}")),
        ({"state": {}, "param_groups": []}, "holds no weights"),
        ({"w": torch.zeros(1)}, "none of the released classes"),
        ({name: tensors[name] for name in [*tensors][:-1]}, f"no tensor '{[*tensors][-1]}'"),
        ({**tensors, "Pow.linear.bias": torch.zeros(7)}, "does not fit"),
    ):
        path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
        assert_raises(CheckpointError, message, import_checkpoint, path, tmp_path / "run")
    assert_raises(CheckpointError, "does not exist", import_checkpoint, tmp_path / "absent", tmp_path / "run")


def test_odd_numbers_and_an_archive_that_expands_are_one_error(tmp_path):
    """Damaged files are a campaign of `fuzz`."""
    path = tmp_path / "weights"
    odd = [torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.int64), torch.tensor([1.0, float("nan")])]
    for tensor in (*odd, torch.ones(1).expand(10**15), torch.eye(2).to_sparse()):
        torch.save({"a": tensor}, path)
        assert_raises(CheckpointError, "numbers of type", read_checkpoint, path)
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"0" * 200_000_000)
    assert_raises(CheckpointError, "expands to 200000000 bytes", read_checkpoint, tmp_path / "bomb")
