"""A text in the form of the Penn Treebank files: one sentence a line, words separated by blanks.

A folder holds `*train.txt`, `*valid.txt` and `*test.txt`, such as `ptb.train.txt`. The word `</s>` is added to every line.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dgl_treestack.errors import DataError

PARTS = ("train", "valid", "test")
END, UNKNOWN = "</s>", "<unk>"
MOST_BYTES = 1 << 20  # maximum length of a line
# Sizes of the Penn Treebank's files, counting the ends of sentences (Mikolov's preparation).
PENN = {"words": 10_000, "train": 929_589, "valid": 73_760, "test": 82_430}
ENOUGH_WORDS = 5_000  # a text with <unk>, N and a vocabulary of this size counts as the Penn Treebank or a part of it


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as word ids.

    words: the vocabulary, in order of first occurrence. parts: train, valid, test -> ids of words (T,), every sentence
    followed by `</s>`, word 0.
    """

    words: tuple[str, ...]
    parts: Mapping[str, np.ndarray]

    @classmethod
    def read(cls, folder: Path) -> "Corpus":
        """Read a folder line by line. Raises DataError, with file and line, for malformed text, and for a part of the Penn
        Treebank, as perplexities on it could not be compared with published ones."""
        numbers: dict[str, int] = {END: 0}
        parts = {part: _numbered(path, numbers, grows=part == "train") for part, path in files_of(folder).items()}
        sizes = {"words": len(numbers), **{part: len(tokens) for part, tokens in parts.items()}}
        if len(numbers) >= ENOUGH_WORDS and UNKNOWN in numbers and "N" in numbers and sizes != PENN:
            raise DataError(
                f"It looks like the Penn Treebank, which has {PENN}, counting ends of sentences, but has {sizes}.", folder
            )
        return cls(tuple(numbers), parts)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a folder of text by part. Raises DataError for a folder without one of them."""
    paths: dict[str, Path] = {}
    for part in PARTS:
        paths[part] = folder / f"ptb.{part}.txt"
        if not paths[part].is_file():  # a folder may contain ptb.char.*.txt besides ptb.*.txt
            candidates = sorted(folder.glob(f"*{part}.txt")) if folder.is_dir() else []
            if len(candidates) != 1:
                number = "there are several" if candidates else "there is none"
                raise DataError(
                    f"A folder of text has one file ending in {part}.txt, such as ptb.{part}.txt; {number}.", folder
                )
            paths[part] = candidates[0]
    return paths


def _numbered(path: Path, numbers: dict[str, int], *, grows: bool) -> np.ndarray:
    """Return the words of a file as ids. New words get the next id if the vocabulary grows, else that of <unk>."""
    tokens = array("i")
    for line, words in _sentences(path):
        for word in words:
            number = numbers.get(word)
            if number is None and grows:
                number = numbers.setdefault(word, len(numbers))
            if number is None:
                number = numbers.get(UNKNOWN)
            if number is None:
                raise DataError(
                    f"{word!r} does not occur in the training text, which has no {UNKNOWN} to replace it.", path, line
                )
            tokens.append(number)
        tokens.append(numbers[END])
    if len(tokens) == 0:
        raise DataError("There are no sentences in the file.", path)
    return np.frombuffer(tokens, dtype=np.int32).copy()


def _sentences(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the words of every line that is not blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_BYTES + 1), b""), 1):
                if len(line) > MOST_BYTES:
                    raise DataError(f"The line has more than {MOST_BYTES} bytes. One line holds one sentence.", path, number)
                try:
                    words = line.decode("utf-8-sig" if number == 1 else "utf-8").split()
                except UnicodeDecodeError:
                    raise DataError("Not UTF-8 text.", path, number) from None
                if any("\0" in word for word in words):
                    raise DataError("A zero byte: this is no text.", path, number)
                if END in words:
                    raise DataError(f"The word {END} is reserved for ends of sentences. Remove it.", path, number)
                if words:
                    yield number, words
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
