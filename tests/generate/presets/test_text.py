"""The generated text: its grammar checked in another way, its form, the same bytes for any number of jobs."""

from collections import Counter

import numpy as np

from dgl_treestack.generate.presets import text
from dgl_treestack.language.corpus import WordCorpus

PARTS = ("train", "valid", "test")


def lines(made, part):
    return [line.split() for line in (made("text").folder / f"text.{part}.txt").read_text().splitlines()]


def forms(kind):
    """The ending's number, from 0 to 5, of every form of a kind of word; for nouns the class and number that they ask for."""
    stems = text.make_lexicon(1).stems[kind]
    if kind == "noun":
        return {stem + plural: i % 3 + 3 * bool(plural) for i, stem in enumerate(stems) for plural in ("", "r")}
    return {stem + end: i for stem in stems for i, end in enumerate(text.ENDINGS[kind])}


def test_determiner_adjectives_and_noun_agree(made):
    nouns, adjectives = forms("noun"), forms("adjective")
    assert nouns.keys().isdisjoint(adjectives) and forms("verb").keys().isdisjoint(nouns | adjectives)
    determiners = {word: i for words in text.DETERMINERS.values() for i, word in enumerate(words)}
    counts = Counter()
    for words in lines(made, "train"):
        for start in (i for i, word in enumerate(words) if word in determiners):
            end = next(i for i in range(start + 1, len(words)) if words[i] not in adjectives)
            if words[end] in nouns:  # not <unk>
                endings = {determiners[words[start]], *(adjectives[word] for word in words[start + 1 : end])}
                assert endings == {nouns[words[end]]}
                counts[end - start - 1] += 1
    assert counts[0] > 8000 and counts[1] > 2000 and counts[2] > 500


def test_clauses_are_nested_up_to_the_limit_and_quotes_are_closed():
    writer = text.Writer(text.make_lexicon(1), 0, np.random.default_rng(0))
    depths = Counter()
    for _ in range(3000):
        words, depth = writer.sentence(), writer.deepest
        depths[depth] += 1
        assert depth <= 1 + sum(word in ("ke", "qui", "«") for word in words)
        assert (words.count("«"), words.count("»")) in ((0, 0), (1, 1)) and words[-1] == "."
    assert set(depths) == set(range(1, text.DEEPEST + 1))


def test_the_last_verb_agrees_with_the_first_noun_whatever_is_between(made):
    """Clauses of one noun, relative clauses in it that end with their own verbs, and a verb: "ta mo qui te ra vi-e la-a ."."""
    noun_of, verb_of, distances = forms("noun"), forms("verb"), []
    for words in lines(made, "train"):
        nouns = [i for i, word in enumerate(words) if word in noun_of]
        verbs = [i for i, word in enumerate(words) if word in verb_of]
        plain = {*text.PLACES, *text.LINKS, "ke", ":", "<unk>"}.isdisjoint(words)
        one_clause = words.count("qui") == 1 == len(verbs) - 1 == len(nouns) - 1
        if plain and one_clause and nouns[1] < verbs[0] and verbs[1] == len(words) - 2:
            inner, outer = (noun_of[words[i]] for i in reversed(nouns))
            if verbs[1] == verbs[0] + 1 and words[nouns[0] + 1] == "qui" and words[nouns[0] + 2] not in verb_of:
                assert [verb_of[words[i]] for i in verbs] == [inner, outer]
                distances.append(verbs[1] - nouns[0])
    assert len(distances) > 30 and max(distances) >= 6


def test_a_corpus_reads_it_and_rare_words_are_unknown(made):
    corpus = WordCorpus.read(made("text").folder)
    assert corpus.words[0] == "</s>" and "<unk>" in corpus.words
    counts = Counter(word for line in lines(made, "train") for word in line)
    assert min(counts.values()) >= 2 and counts.total() > 60_000
    for part in ("valid", "test"):
        assert {word for line in lines(made, part) for word in line} <= counts.keys()
    assert len(lines(made, "train")) == 0.84 * 9000
    words = sum(len(line) for part in PARTS for line in lines(made, part))
    assert words / 9000 * text.SENTENCES > 250_000, "by default"
