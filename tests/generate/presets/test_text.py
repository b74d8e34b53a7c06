"""The generated text: its grammar checked in another way, its form, the same bytes for any number of jobs."""

import itertools

import pytest

from dgl_treestack.generate.presets import Options, text
from dgl_treestack.generate.production import produce
from dgl_treestack.language.corpus import Corpus

PARTS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    produce("text", Options(seed=1, equations=9000), folder)
    return folder


def lines(folder, part):
    return [line.split() for line in (folder / f"text.{part}.txt").read_text().splitlines()]


def test_determiner_adjectives_and_noun_agree(folder):
    lexicon = text.make_lexicon(1)
    noun_of = {stem + plural: (i % 3, bool(plural)) for i, stem in enumerate(lexicon.stems["noun"]) for plural in ("", "r")}
    checked = 0
    for words in lines(folder, "train"):
        for first, second in itertools.pairwise(words):
            for determiners in text.DETERMINERS.values():
                if first in determiners and second in noun_of:
                    noun_class, is_plural = noun_of[second]
                    assert determiners.index(first) == noun_class + 3 * is_plural
                    checked += 1
    assert checked > 8000


def test_the_last_verb_agrees_with_the_first_noun_whatever_is_between(folder):
    """Clauses of one noun, relative clauses in it that end with their own verbs, and a verb: "ta mo qui te ra vi-e la-a ."."""
    lexicon = text.make_lexicon(1)
    noun_of = {stem + plural: i % 3 + 3 * bool(plural) for i, stem in enumerate(lexicon.stems["noun"]) for plural in ("", "r")}
    verb_of = {stem + end: i for stem in lexicon.stems["verb"] for i, end in enumerate(text.ENDINGS["verb"])}
    distances = []
    for words in lines(folder, "train"):
        nouns = [i for i, word in enumerate(words) if word in noun_of]
        verbs = [i for i, word in enumerate(words) if word in verb_of]
        plain = {*text.PLACES, *text.LINKS, "ke", ":", "<unk>"}.isdisjoint(words)
        if (
            plain
            and words.count("qui") == 1 == len(verbs) - 1 == len(nouns) - 1
            and nouns[1] < verbs[0]
            and verbs[1] == len(words) - 2
        ):
            inner, outer = (noun_of[words[i]] for i in reversed(nouns))
            if verbs[1] == verbs[0] + 1 and words[nouns[0] + 1] == "qui" and words[nouns[0] + 2] not in verb_of:
                assert [verb_of[words[i]] for i in verbs] == [inner, outer]
                distances.append(verbs[1] - nouns[0])
    assert len(distances) > 30 and max(distances) >= 6


def test_a_corpus_reads_it_and_rare_words_are_unknown(folder):
    corpus = Corpus.read(folder)
    assert corpus.words[0] == "</s>" and "<unk>" in corpus.words
    words = [word for line in lines(folder, "train") for word in line]
    assert min(words.count(word) for word in set(words[:300]) - {"<unk>"}) >= 2
    assert len(lines(folder, "train")) == 0.84 * 9000 and len(words) > 60_000


def test_by_default_it_has_over_two_hundred_thousand_words(folder):
    words = sum(len(line) for part in PARTS for line in lines(folder, part))
    assert words / 9000 * text.SENTENCES > 250_000


def test_any_number_of_jobs_gives_the_same_text(tmp_path):
    for jobs in (1, 2):
        produce("text", Options(seed=3, equations=8000), tmp_path / str(jobs), jobs=jobs)
    for part in PARTS:
        name = f"text.{part}.txt"
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
