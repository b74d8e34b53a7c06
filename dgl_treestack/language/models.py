"""Models of text: a sequence cell between an embedding and a softmax over the vocabulary, and, as baselines, n-grams with
interpolated Kneser-Ney smoothing and a cache of recent words."""

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import State
from dgl_treestack.sequence import SequenceCell

EVALUATED = 200  # tokens per step of an evaluation


class LanguageModel(nn.Module):
    """p(w_{t+1}) = softmax(V h_t + b), where x_t, the input of the cell, is the word's row of a table of width H.

    In Joulin & Mikolov 2015 x_t is the word itself, so that the cell's U is the table, and there is no b.
    """

    def __init__(self, cell: SequenceCell, words: int):
        super().__init__()
        self.cell = cell
        self.table = nn.Parameter(torch.empty(words, cell.inputs))
        self.output = nn.Linear(cell.hidden, words)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise the cell by its own rule, the table from N(0, 0.1), the output with 0: all words are equally likely."""
        self.cell.reset_parameters(generator)
        nn.init.normal_(self.table, 0.0, 0.1, generator=generator)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def losses(self, tokens: Tensor, targets: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return -ln p (T, B) of the targets (T, B) after the tokens (T, B), and the last state."""
        h, state = self.cell.unroll(functional.embedding(tokens, self.table), state)
        losses = functional.cross_entropy(self.output(h).flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view_as(targets), state

    @torch.no_grad()
    def perplexity(self, tokens: np.ndarray) -> float:
        """Return the perplexity of a text read as one stream, from an empty state and after an end of sentence."""
        self.eval()
        text = torch.from_numpy(np.concatenate([[0], tokens]).astype(np.int64))
        # One stream, so that stacks that go wrong may stay so to the end: one Stack RNN rose from 46.3 to 49.9 in an epoch, by
        # 0.29 nats a word after 73 % of the text, and with four of its 60 stacks replaced there it did not.
        total, state = 0.0, None
        for inputs, targets in windows(text.unsqueeze(1), EVALUATED):
            losses, state = self.losses(inputs, targets, state)
            total += losses.sum().item()
        return math.exp(total / len(tokens)) if total < 500 * len(tokens) else math.inf


def windows(text: Tensor, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of words (T, B) and the words that follow them, at most `length` steps at a time."""
    for start in range(0, len(text) - 1, length):
        stop = min(start + length, len(text) - 1)
        yield text[start:stop], text[start + 1 : stop + 1]


def streams(tokens: np.ndarray, count: int) -> Tensor:
    """Split a text into `count` streams of equal length, as columns (T, B); a remainder at the end is not used."""
    count = min(count, max(1, len(tokens) // 2))
    length = len(tokens) // count
    return torch.from_numpy(tokens[: length * count].astype(np.int64)).view(count, length).T.contiguous()


ORDER, DISCOUNT = 5, 0.75
CACHE, SHARE = 500, 0.1  # words of the cache, and its share of the probability


@dataclass(frozen=True, eq=False)
class _Order:
    """All n-grams of one length; the id of an n-gram is its position. keys: the id of the context (the n-gram without its last
    word) times the size of the vocabulary, plus the last word; increasing. counts: n of the formula. totals, kinds: per
    context, the sum of the counts, and the number of nonzero counts."""

    keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    kinds: np.ndarray


class KneserNey:
    """Chen & Goodman 1999, eq. 2.5, with one discount D for all orders:

        p(w | c) = max(n(c w) - D, 0) / n(c) + D n1(c) / n(c) p(w | c')          c' is c without its first word

    n counts occurrences in the highest order and, in lower orders, the distinct preceding words; n1(c) counts the distinct
    words after c. Below single words all words are equally likely. The text is padded with words 0 in front. Sorted arrays take
    about a hundred bytes per word of the text.
    """

    def __init__(self, tokens: Sequence[int] | np.ndarray, words: int, *, order: int = ORDER):
        self.order, self.words = order, words
        text = np.concatenate([np.zeros(order - 1, dtype=np.int64), np.asarray(tokens, dtype=np.int64)])
        keys, counts = list[np.ndarray](), list[np.ndarray]()
        numbers = np.zeros(len(text), dtype=np.int64)  # of the n-grams that end at each word, from the first complete one on
        for size in range(1, order + 1):
            shorter = numbers
            distinct, numbers = np.unique(shorter[: len(text) - size + 1] * words + text[size - 1 :], return_inverse=True)
            inside = numbers[order - size :]  # n-grams whose last word is in the text itself
            keys.append(distinct)
            counts.append(np.bincount(inside, minlength=len(distinct)))
            if size > 1:  # a lower order counts the different words that precede an n-gram
                _, first = np.unique(inside, return_index=True)
                counts[-2] = np.bincount(shorter[order - size + 1 :][first], minlength=len(keys[-2]))
        # Arrays take 55 MB and 0.8 s for the 5-grams of a million words; dictionaries took a gigabyte.
        self.orders = list[_Order]()
        for distinct, count in zip(keys, counts, strict=True):
            contexts = distinct // words
            self.orders.append(_Order(distinct, count, np.bincount(contexts, count), np.bincount(contexts, count > 0)))

    def probabilities(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the probability (T,) of every word of a text given those before it."""
        text = np.concatenate([np.zeros(self.order - 1, dtype=np.int64), np.asarray(tokens, dtype=np.int64)])
        probabilities = np.full(len(tokens), 1.0 / self.words)
        numbers = np.zeros(len(text), dtype=np.int64)  # as above, -1 for n-grams that the training text does not have
        for size, order in enumerate(self.orders, 1):
            shorter = numbers[: len(text) - size + 1]
            keys = shorter * self.words + text[size - 1 :]
            indices = np.minimum(np.searchsorted(order.keys, keys), len(order.keys) - 1)
            numbers = np.where((shorter >= 0) & (order.keys[indices] == keys), indices, -1)
            contexts, ngrams = shorter[self.order - size :], numbers[self.order - size :]
            inside = (contexts >= 0) & (contexts < len(order.totals))
            totals = np.where(inside, order.totals[np.where(inside, contexts, 0)], 0)
            seen = totals > 0
            counts = np.where(ngrams >= 0, order.counts[ngrams], 0)[seen]
            backoff = DISCOUNT * order.kinds[contexts[seen]] * probabilities[seen]
            probabilities[seen] = (np.maximum(counts - DISCOUNT, 0) + backoff) / totals[seen]
        return probabilities

    def perplexity(self, tokens: np.ndarray, *, cache: bool = False) -> float:
        """Return the perplexity of a text, including ends of sentences. cache: mix in the relative frequencies among the last
        500 words with a weight of a tenth."""
        probabilities = self.probabilities(tokens)
        recent, counts = deque[int](), Counter[int]()
        for i, word in enumerate(map(int, tokens) if cache else ()):
            if recent:  # the first word has none before it
                probabilities[i] = (1 - SHARE) * probabilities[i] + SHARE * (counts[word] / len(recent))
            recent.append(word)
            counts[word] += 1
            if len(recent) > CACHE:
                counts[recent.popleft()] -= 1
        return math.exp(-float(np.log(probabilities).mean()))
