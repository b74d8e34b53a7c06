"""Language models on a small text of our own, in which a word depends on one far before it."""

import math
import random
import tracemalloc

import numpy as np
import pytest
import torch
from each_case import assert_raises, cases
from small_runs import assert_same_when_stopped

from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.experiments.language_model import perplexities_of
from dgl_treestack.language.corpus import PARTS, WordCorpus
from dgl_treestack.language.models import KneserNey, LanguageModel, streams, windows
from dgl_treestack.resources import configs
from dgl_treestack.results.run_result import read_any
from dgl_treestack.runs import configuration, sequence_configuration
from dgl_treestack.runs.run import Run
from dgl_treestack.sequence import SCRN
from dgl_treestack.training.text import ENOUGH, TextObjective

SUBJECTS = {"the king": "rules", "the kings": "rule", "a child": "sleeps", "some children": "sleep"}
BETWEEN = ["in the old house", "of that far land", "with a red hat", "near the wide river", "under some tall trees"]


def sentences(count, seed):
    """A subject, two to four phrases, and the verb that goes with the subject, nine to sixteen words later."""
    rng = random.Random(seed)
    for _ in range(count):
        subject = rng.choice(list(SUBJECTS))
        yield " ".join([subject, *rng.choices(BETWEEN, k=rng.randrange(2, 5)), SUBJECTS[subject]])


def write_text(folder, sizes=(600, 80, 80)):
    folder.mkdir(exist_ok=True)
    for seed, (part, size) in enumerate(zip(("train", "valid", "test"), sizes, strict=True)):
        (folder / f"our.{part}.txt").write_text("\n".join(sentences(size, seed)) + "\n")
    return folder


def test_a_corpus_is_numbered_words_with_ends_read_in_bounded_memory(tmp_path):
    corpus = WordCorpus.read(write_text(tmp_path / "text"))
    assert corpus.words[0] == "</s>" and len(corpus.words) == len(set(corpus.words)) == 28
    text = " ".join(corpus.words[number] for number in corpus.parts["valid"]).split(" </s>")
    assert [sentence.strip() for sentence in text[:-1]] == list(sentences(80, 1))
    with (tmp_path / "our.train.txt").open("w") as file:
        for _ in range(25_000):
            file.write("one two three four five six seven eight nine\n")
    for part in ("valid", "test"):
        (tmp_path / f"our.{part}.txt").write_text("one two\n")
    tracemalloc.start()
    corpus = WordCorpus.read(tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(corpus.parts["train"]) == 250_000 and most < 5e6, "four bytes a word, and room to grow"


@cases(
    ("valid", "the queen rules\n", "our.valid.txt:1: 'queen' does not occur in the training text"),
    ("train", "a b\nc </s> d\n", "our.train.txt:2: The word </s>"),
    ("test", "\n\n", "our.test.txt: There are no sentences"),
    ("train", b"a b\n\xff\xfe c\n", "our.train.txt:2: The text is not UTF-8"),
    ("train", b"a \x00 c\n", "our.train.txt:1: A zero byte"),
    ("train", "a " * 600_000, "our.train.txt:1: The line has more than"),
    ("valid", None, "one file ending in valid.txt"),
)
def test_a_malformed_file_is_one_clear_error(tmp_path, train, part, content, message):
    folder = write_text(tmp_path / "text", (20, 5, 5))
    path = folder / f"our.{part}.txt"
    path.unlink() if content is None else path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = train("configs/language_model/rnn.toml", "--data", folder, "--output-dir", tmp_path / "runs", code=2)
    assert message in said and not (tmp_path / "runs").exists()


def test_what_looks_like_the_penn_treebank_has_to_be_all_of_it(tmp_path):
    words = [f"w{i}" for i in range(9_997)] + ["<unk>", "N"]
    for part in PARTS:
        (tmp_path / f"ptb.{part}.txt").write_text(" ".join(words) + "\n")
        (tmp_path / f"ptb.char.{part}.txt").write_text("a b c\n")
    assert_raises(DataError, "looks like the Penn Treebank", WordCorpus.read, tmp_path)
    (tmp_path / "ptb.train.txt").write_text("\ufeff" + " ".join(words[-6_000:]) + "\n")  # cut, and with a mark of byte order
    assert_raises(DataError, "'words': 6001", WordCorpus.read, tmp_path)
    (tmp_path / "ptb.train.txt").write_text(" ".join(words[-4_000:]) + "\n")
    assert len(WordCorpus.read(tmp_path).words) == 4_001, "a text of one's own"


def test_kneser_ney_sums_to_one_knows_what_it_saw_and_takes_some_hundred_bytes_a_word():
    tokens = np.random.default_rng(0).integers(0, 6, 300)
    grams = KneserNey(tokens, 7, order=3)
    for before in ((0, 1), (6, 6), (2, 6), tuple(tokens[50:52])):
        assert sum(_probability(grams, word, before) for word in range(7)) == pytest.approx(1)
    # By hand, order 2: after 1 follows 2 in three of four cases; below are five different pairs: 0 1, 2 1, 3 1, 1 2, 1 3.
    few = KneserNey([1, 2, 1, 2, 1, 3, 1, 2], 4, order=2)
    unigram = {1: (3 - 0.75) / 5, 2: (1 - 0.75) / 5, 3: (1 - 0.75) / 5}
    below = {word: share + 0.75 * 3 / 5 * 0.25 for word, share in unigram.items()}
    assert _probability(few, 2, (1,)) == pytest.approx((3 - 0.75) / 4 + 0.75 * 2 / 4 * below[2])
    assert _probability(few, 1, (3,)) == pytest.approx((1 - 0.75) / 1 + 0.75 * 1 / 1 * below[1])
    seen = KneserNey([1, 2, 3] * 50, 4, order=3)
    assert _probability(seen, 3, (1, 2)) > 0.97 and seen.perplexity(np.array([1, 2, 3] * 20)) < 1.1
    with_cache = KneserNey([1, 2, 3, 0] * 50, 5, order=2).perplexity(np.array([4] * 100), cache=True)
    assert with_cache < KneserNey([1, 2, 3, 0] * 50, 5, order=2).perplexity(np.array([4] * 100)) * 0.7
    generator = np.random.default_rng(0)
    tokens = np.minimum(generator.zipf(1.3, 200_000), 10_000) - 1
    tracemalloc.start()
    grams = KneserNey(tokens, 10_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 400 * len(tokens)
    chances = grams.probabilities(tokens[:50])
    one_by_one = [_probability(grams, int(tokens[i]), [0] * 4 + tokens[:i].tolist()) for i in range(50)]
    np.testing.assert_allclose(chances, one_by_one)


@pytest.mark.parametrize("name", ["rnn", "lstm", "scrn", "stack_rnn"])
def test_every_model_reads_a_stream_as_windows(name):
    config = configuration.load_any(configs()[f"language_model/{name}"])
    assert config.model == name
    model = LanguageModel(config.cell(), 12).double()
    model.reset_parameters(torch.Generator().manual_seed(0))
    torch.nn.init.normal_(model.output.weight, generator=torch.Generator().manual_seed(1))
    tokens = np.random.default_rng(0).integers(0, 12, 461)
    whole, _ = model.losses(*next(windows(torch.from_numpy(np.concatenate([[0], tokens])).unsqueeze(1), 500)))
    assert model.perplexity(tokens) == pytest.approx(math.exp(whole.mean().item()), rel=1e-12), "three windows"
    cut = [model.perplexity(part) for part in (tokens[:200], tokens[200:])]
    mean = (200 * math.log(cut[0]) + 261 * math.log(cut[1])) / 461
    assert math.exp(mean) != pytest.approx(model.perplexity(tokens), rel=1e-9)
    side_by_side = streams(tokens, 4)
    assert side_by_side.shape == (115, 4) and side_by_side[:, 1].tolist() == tokens[115:230].tolist()


def test_scrn_changes_slowly_where_it_should():
    cell = SCRN(3, 5, context=2, alpha=0.9).double()
    cell.reset_parameters(torch.Generator().manual_seed(0))
    x = torch.randn(4, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    h, _ = cell.unroll(x)
    slow, fast = torch.zeros(1, 2, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    for t in range(4):
        slow = 0.1 * x[t] @ cell.U[3:].T + 0.9 * slow
        fast = torch.sigmoid(slow @ cell.P.T + x[t] @ cell.U[:3].T + fast @ cell.R.T)
        torch.testing.assert_close(h[t], torch.cat([fast, slow], dim=-1))
    assert_raises(ConfigurationError, "'context' is 5", SCRN, 3, 5, context=5)


def small(folder, model, **changes):
    settings = {"lstm": {}, "stack_rnn": {"stacks": 4, "recurrence": "full", "noop": True, "capacity": 20}}[model]
    described = {"model": model, "hidden": 32, "settings": settings, "optimizer": "adam", "learning_rate": 0.01, "streams": 8}
    config = sequence_configuration.TextConfig(f"small-{model}", **{**described, "epochs": 12, "window": 40, **changes})
    (folder / f"{model}.toml").write_text(configuration.dump(config))
    return folder / f"{model}.toml"


@pytest.fixture
def train(treestack):
    """`treestack train`; it returns what is printed, errors for an exit code."""
    return lambda *arguments, code=0: treestack("train", "--quiet", *arguments, code=code)


def test_a_trained_model_beats_the_n_gram_on_words_that_depend_on_far_ones(tmp_path, train, treestack):
    folder = write_text(tmp_path / "text")
    arguments = [small(tmp_path, "lstm"), "--data", folder, "--output-dir", tmp_path / "runs"]
    lines = [line.rsplit(maxsplit=2) for line in train(*arguments).splitlines()[1:]]
    rows = {label: [float(valid), float(test)] for label, valid, test in lines}
    result = perplexities_of(read_any(tmp_path / "runs" / "small-lstm-0"))
    assert rows["small-lstm-0"] == [pytest.approx(result["valid"], abs=0.01), pytest.approx(result["test"], abs=0.01)]
    assert rows["small-lstm-0"][1] < 0.97 * min(rows["5-gram"][1], rows["5-gram with cache"][1])
    assert "Continue with --resume" in train(*arguments, code=2)
    run = tmp_path / "runs" / "small-lstm-0"
    for command in (["report", run], ["evaluate", run, "our.test.txt"], ["predict", "x", "--run", run]):
        assert "it describes a language model, not a run on trees" in treestack(*command, code=2)


def test_after_a_worse_epoch_training_goes_on_from_the_best_weights_at_a_lower_rate(tmp_path, train):
    folder = write_text(tmp_path / "text", (60, 10, 10))
    config = small(tmp_path, "lstm", epochs=30, learning_rate=0.2)
    train(config, "--data", folder, "--output-dir", tmp_path)
    rows = Run(tmp_path / "small-lstm-0").read_metrics()
    best, rate, stale = math.inf, 0.2, 0
    for row in rows:
        assert row["learning_rate"] == rate and stale < 3
        is_better = row["validation_loss"] < ENOUGH * best
        best, stale = (row["validation_loss"], 0) if is_better else (best, stale + 1)
        rate *= 1 if is_better else 0.5
    assert stale == 3 and len(rows) < 30
    assert math.log(perplexities_of(read_any(tmp_path / "small-lstm-0"))["valid"]) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_run_stopped_at_any_window_goes_on_to_the_same_numbers(tmp_path, optimizer):
    folder = write_text(tmp_path / "text", (60, 10, 10))
    config = configuration.load_any(small(tmp_path, "stack_rnn", epochs=4, optimizer=optimizer, text=str(folder)))
    assert_same_when_stopped(config, TextObjective, [(1, 4)], tmp_path)


@cases(
    (["--set", "learning_rate=-1"], "'learning_rate' is -1"),
    (["--set", "settings.restarts=2"], "'restarts' is no setting"),
    (["--set", "settings.depth=2"], "unexpected keyword argument 'depth'"),
    (["--set", "hiden=2"], "Did you mean 'hidden'"),
    (["--set", "optimizer=adam", "learning_rate=1e30"], "Lower the learning rate"),
    (["--seeds", "1", "1"], "each given once"),
    (["--device", "cuda"], "is trained on the CPU"),
)
def test_what_cannot_be_trained_is_one_error(tmp_path, train, flags, message):
    folder = write_text(tmp_path / "text", (40, 5, 5))
    assert message in train(small(tmp_path, "lstm"), "--data", folder, "--output-dir", tmp_path / "runs", *flags, code=2)


def _probability(grams, word, before):
    """The probability of a word after at least order - 1 others."""
    return float(grams.probabilities([*before, word])[-1])
