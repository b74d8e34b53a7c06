"""n-grams with interpolated Kneser-Ney smoothing, and a cache of what was just said: what a language model has to beat."""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ORDER, DISCOUNT = 5, 0.75
CACHE, SHARE = 500, 0.1  # words of the cache, and its share of the probability


@dataclass(frozen=True, eq=False)
class _Level:
    """All n-grams of one length, by number. keys: number of the n-gram without its last word, times the words there are, plus
    the last word; rising. counts: as in the formula. totals, kinds: sums of counts, and how many are not zero, by what comes
    before the last word."""

    keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    kinds: np.ndarray

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Numbers, -1 for what is not there."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)


class KneserNey:
    """Chen & Goodman 1999, eq. 2.5, with one discount D for all orders:

        p(w | c) = max(n(c w) - D, 0) / n(c) + D n1(c) / n(c) p(w | c')          c' is c without its first word

    n counts occurrences in the highest order and, below it, the different words that stand before; n1(c) counts the different
    words after c. Below single words all words are equally likely. The text begins after words 0. Sorted arrays: some hundred
    bytes a word of the text.
    """

    def __init__(self, tokens: Sequence[int] | np.ndarray, words: int, *, order: int = ORDER, discount: float = DISCOUNT):
        self.order, self.words, self.discount = order, words, discount
        text = self._after_words_0(tokens)
        numbers, keys, counts = np.zeros(len(text), dtype=np.int64), list[np.ndarray](), list[np.ndarray]()
        for size in range(1, order + 1):  # numbers: of the n-gram that ends at a word, from the first word that ends one
            shorter = numbers
            of_text = shorter[: len(text) - size + 1] * words + text[size - 1 :]
            found, numbers = np.unique(of_text, return_inverse=True)
            own = numbers[order - size :]  # those that end in the text itself
            keys.append(found)
            counts.append(np.bincount(own, minlength=len(found)))
            if size > 1:  # how many different words stand before an n-gram
                _, first = np.unique(own, return_index=True)
                counts[-2] = np.bincount(shorter[order - size + 1 :][first], minlength=len(keys[-2]))
        self.levels = [self._level(*one) for one in zip(keys, counts, strict=True)]

    def _level(self, keys: np.ndarray, counts: np.ndarray) -> _Level:
        before = keys // self.words
        return _Level(keys, counts, np.bincount(before, counts), np.bincount(before, counts > 0))

    def _after_words_0(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(self.order - 1, dtype=np.int64), np.asarray(tokens, dtype=np.int64)])

    def probabilities(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """(T,) of every word of a text after those before it."""
        text = self._after_words_0(tokens)
        found = np.full(len(tokens), 1.0 / self.words)
        numbers = np.zeros(len(text), dtype=np.int64)
        for size, level in enumerate(self.levels, 1):
            shorter = numbers[: len(text) - size + 1]
            numbers = np.where(shorter < 0, -1, level.find(shorter * self.words + text[size - 1 :]))
            before, own = shorter[self.order - size :], numbers[self.order - size :]
            inside = (before >= 0) & (before < len(level.totals))
            total = np.where(inside, level.totals[np.where(inside, before, 0)], 0)
            known = total > 0
            count = np.where(own >= 0, level.counts[own], 0)[known]
            rest = self.discount * level.kinds[before[known]] * found[known]
            found[known] = (np.maximum(count - self.discount, 0) + rest) / total[known]
        return found

    def probability(self, word: int, before: Sequence[int]) -> float:
        """Of a word after at least order - 1 others."""
        return float(self.probabilities([*before, word])[-1])

    def perplexity(self, tokens: np.ndarray, *, cache: bool = False) -> float:
        """Of a text, every end of a sentence included. cache: a tenth of the probability goes to the last 500 words."""
        chances = self.probabilities(tokens)
        if cache:
            chances[1:] = (1 - SHARE) * chances[1:] + SHARE * _shares_of_the_last(tokens)[1:]
        return math.exp(-float(np.log(chances).mean()))


def _shares_of_the_last(tokens: np.ndarray) -> np.ndarray:
    """(T,) of every word, its share of the 500 words before it; 0 for the first."""
    recent, seen = deque[int](), Counter[int]()
    found = np.zeros(len(tokens))
    for i, word in enumerate(map(int, tokens)):
        found[i] = seen[word] / max(len(recent), 1)
        recent.append(word)
        seen[word] += 1
        if len(recent) > CACHE:
            seen[recent.popleft()] -= 1
    return found
