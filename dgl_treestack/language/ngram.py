"""n-grams with interpolated Kneser-Ney smoothing, and a cache of what was just said: what a language model has to beat."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence

import numpy as np

ORDER, DISCOUNT = 5, 0.75
CACHE, SHARE = 500, 0.1  # words of the cache, and its share of the probability


class KneserNey:
    """Chen & Goodman 1999, eq. 2.5, with one discount D for all orders:

        p(w | c) = max(n(c w) - D, 0) / n(c) + D n1(c) / n(c) p(w | c')          c' is c without its first word

    n counts occurrences in the highest order and, below it, the different words that stand before; n1(c) counts the different
    words after c. Below single words all words are equally likely.
    """

    def __init__(self, tokens: Iterable[int], words: int, *, order: int = ORDER, discount: float = DISCOUNT):
        self.order, self.words, self.discount = order, words, discount
        self.counts: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(order)]  # by the number of words before
        padded = [*[0] * (order - 1), *map(int, tokens)]
        self.counts[-1].update(zip(*(padded[i:] for i in range(order)), strict=False))
        for size in range(order - 1, 0, -1):
            self.counts[size - 1].update(gram[1:] for gram in self.counts[size])
        self.totals: list[defaultdict[tuple[int, ...], int]] = [defaultdict(int) for _ in range(order)]
        self.kinds: list[defaultdict[tuple[int, ...], int]] = [defaultdict(int) for _ in range(order)]
        for counts, totals, kinds in zip(self.counts, self.totals, self.kinds, strict=True):
            for gram, count in counts.items():
                totals[gram[:-1]] += count
                kinds[gram[:-1]] += 1

    def probability(self, word: int, before: Sequence[int]) -> float:
        """Of a word after at least order - 1 others."""
        found = 1.0 / self.words
        for size in range(self.order):
            context = tuple(before[len(before) - size :])
            total = self.totals[size].get(context, 0)
            if not total:
                break
            count = self.counts[size].get((*context, word), 0)
            found = (max(count - self.discount, 0) + self.discount * self.kinds[size][context] * found) / total
        return found

    def perplexity(self, tokens: np.ndarray, *, cache: bool = False) -> float:
        """Of a text, every end of a sentence included. cache: a tenth of the probability goes to the last 500 words."""
        before, recent, seen = deque([0] * (self.order - 1), self.order - 1), deque[int](), Counter[int]()
        total = 0.0
        for word in map(int, tokens):
            chance = self.probability(word, tuple(before))
            if cache and recent:
                chance = (1 - SHARE) * chance + SHARE * seen[word] / len(recent)
            total -= math.log(chance)
            before.append(word)
            recent.append(word)
            seen[word] += 1
            if len(recent) > CACHE:
                seen[recent.popleft()] -= 1
        return math.exp(total / len(tokens))
