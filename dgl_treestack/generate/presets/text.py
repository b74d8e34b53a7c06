"""A text in an invented language, for language models: 24,000 sentences, 270,000 words, in the Penn Treebank's form.

Sentences come from a grammar, so that it is known what there is to learn:

    text       documents of 8 to 30 sentences; a document has a topic, and a topic has favourite words
    sentence   perhaps a link word and a comma, a clause, perhaps : and a clause between « and », a full stop
    clause     subject and verb, with an object, with "ke" and a clause, or with neither
    subject    determiner, adjectives, noun, and perhaps a place or a relative clause; an object is built in the same way
    place      a preposition and a noun, alone or built like a subject
    relative   "qui" and a verb with what belongs to it, or "qui", a subject and its verb
    agreement  determiner, adjectives and verb end according to the class (of three) and the number of their noun

A verb comes after everything that belongs to its noun. A model that predicts the verb's ending has to remember the noun, or a
stack of nouns where relative clauses are nested. A word of rank r of the language, or of a topic, is drawn with a probability
of about 1 / r. Words that occur once in the training text, or never, are replaced by <unk> in all parts.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from dgl_treestack.generate.presets import Parts, Preset, Product, Row, SetOptions, Shard, pick, stream

SENTENCES, SHARES = 24_000, {"train": 0.84, "valid": 0.08, "test": 0.08}
TOPICS, FAVOURITE = 40, 0.6  # the probability that a noun, verb or adjective is one of the topic's words
SIZES = {"noun": (900, 60), "verb": (300, 30), "adjective": (300, 25)}  # words of the language, words of a topic
CLASSES = 3  # of nouns
ENDINGS = {"verb": ("a", "e", "o", "an", "en", "on"), "adjective": ("i", "u", "y", "is", "us", "ys")}
DETERMINERS = {"the": ("ta", "te", "to", "tan", "ten", "ton"), "a": ("la", "le", "lo", "lan", "len", "lon")}
PLURAL = "r"  # of nouns
PLACES, LINKS = ("in", "sub", "pro", "apud", "trans"), ("sed", "nam", "itaque")
DEEPEST = 4  # levels of clauses; a sentence's clause has level 1
_SHARD = 200  # documents

Agreement = int  # the index of an ending: the class of a noun, plus the number of classes if it is a plural


@dataclass(frozen=True)
class Lexicon:
    """Stems by kind, the most frequent first, and for every topic the stems that it favours, as indices."""

    stems: dict[str, list[str]]
    favourites: list[dict[str, np.ndarray]]


class Text(Preset):
    summary = "a text in an invented language with agreement over nested clauses, for language models"
    seed = 2015

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        sentences = options.equations or SENTENCES
        count = max(1, round(sentences / (_SHARD * 19)))
        yield [Shard(f"{i:03d}", {"sentences": -(-sentences // count)}) for i in range(count)]
        rows = list(parts.rows())
        ends = np.cumsum([round(share * len(rows)) for share in SHARES.values()])[:-1]
        bounds = [0, *ends.tolist(), len(rows)]
        files = {f"text.{part}.txt": rows[bounds[i] : bounds[i + 1]] for i, part in enumerate(SHARES)}
        counts = Counter(word for row in files["text.train.txt"] for word in row["text"].split())
        for row in rows:
            row["text"] = " ".join(word if counts[word] > 1 else "<unk>" for word in row["text"].split())
        words = {name: sum(len(row["text"].split()) for row in of_file) for name, of_file in files.items()}
        vocabulary = {word for row in files["text.train.txt"] for word in row["text"].split()}
        return files, {"words, without ends of sentences": words, "vocabulary": len(vocabulary)}

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        lexicon, rng = make_lexicon(options.seed), stream(options.seed, shard.name)
        left = shard.work["sentences"]
        while left:
            writer = Writer(lexicon, int(rng.integers(TOPICS)), rng)
            for _ in range(min(left, int(rng.integers(8, 31)))):
                words = writer.sentence()
                yield {"text": " ".join(words), "depth": writer.deepest, "label": None}
                left -= 1


@dataclass
class Writer:
    """Writes sentences of one document. topic: whose words are favoured. rng: draws everything.

    deepest: how deeply the clauses of the last sentence are nested, from 1 on.
    """

    lexicon: Lexicon
    topic: int
    rng: np.random.Generator
    deepest: int = 0

    def sentence(self) -> list[str]:
        """Return the words of a sentence."""
        self.deepest = 0
        words = self.clause(1)
        if self.rng.random() < 0.15:
            words = [*words, ":", "«", *self.clause(2), "»"]
        link = [pick(LINKS, self.rng), ","] if self.rng.random() < 0.2 else []
        return [*link, *words, "."]

    def clause(self, level: int) -> list[str]:
        """Return the words of a clause at a level."""
        subject, agreement = self.phrase(level)
        return [*subject, *self.predicate(agreement, level)]

    def predicate(self, agreement: Agreement, level: int) -> list[str]:
        """Return a verb with what depends on it. agreement: of the subject."""
        self.deepest = max(self.deepest, level)
        verb, kind = self._inflected("verb", agreement), self.rng.random()
        if kind < 0.12 and level < DEEPEST:
            return [verb, "ke", *self.clause(level + 1)]
        return [verb, *self.phrase(level)[0]] if kind < 0.6 else [verb]

    def phrase(self, level: int) -> tuple[list[str], Agreement]:
        """Return a noun with all that belongs to it, and its agreement."""
        self.deepest = max(self.deepest, level)
        noun, number = self._stem("noun"), int(self.rng.random() < 0.35)
        agreement = noun % CLASSES + CLASSES * number
        adjectives = [self._inflected("adjective", agreement) for _ in range(int(self.rng.geometric(0.7)) - 1)]
        determiner = DETERMINERS["the" if self.rng.random() < 0.6 else "a"][agreement]
        words = [determiner, *adjectives, self.lexicon.stems["noun"][noun] + PLURAL * number]
        kind = self.rng.random()
        if kind < 0.2:
            is_phrase = self.rng.random() < 0.3
            place = self.phrase(level)[0] if is_phrase else [self.lexicon.stems["noun"][self._stem("noun")]]
            words += [pick(PLACES, self.rng), *place]
        elif kind < 0.4 and level < DEEPEST:
            if self.rng.random() < 0.5:  # who sees the house
                relative = self.predicate(agreement, level + 1)
            else:  # whom the man sees: two nouns, then their verbs in the other order
                inner, other = self.phrase(level + 1)
                relative = [*inner, self._inflected("verb", other)]
            words += ["qui", *relative]
        return words, agreement

    def _stem(self, kind: str) -> int:
        """Draw the index of a stem: one of the topic's favourites, or any."""
        favourites, stems = self.lexicon.favourites[self.topic][kind], range(len(self.lexicon.stems[kind]))
        words = favourites if self.rng.random() < FAVOURITE else stems
        rank = int((len(words) + 1) ** self.rng.random()) - 1  # with a probability of about 1 / (rank + 1)
        return int(words[rank])

    def _inflected(self, kind: str, agreement: Agreement) -> str:
        return self.lexicon.stems[kind][self._stem(kind)] + ENDINGS[kind][agreement]


def make_lexicon(seed: int) -> Lexicon:
    """Draw the words of the language and of its topics."""
    rng = stream(seed, "lexicon")
    syllables = [consonant + vowel for consonant in "bcdfglmnprstv" for vowel in "aeiou"]
    used = set[str]()  # no form of a word is also one of another
    stems: dict[str, list[str]] = {}
    for kind, (count, _) in SIZES.items():
        stems[kind] = []
        while len(stems[kind]) < count:
            size = int(rng.integers(2, 4))
            stem = "".join(syllables[i] for i in rng.integers(len(syllables), size=size)) + "bdklmst"[int(rng.integers(7))]
            forms = {stem + ending for ending in ENDINGS.get(kind, ("", PLURAL))}
            if used.isdisjoint(forms):
                used |= forms
                stems[kind].append(stem)
    favourites = [
        {kind: rng.choice(count, of_topic, replace=False) for kind, (count, of_topic) in SIZES.items()} for _ in range(TOPICS)
    ]
    return Lexicon(stems, favourites)


PRESET = Text()
