"""A text in the form of the Penn Treebank files: one sentence a line, words with blanks between them.

A folder holds `*train.txt`, `*valid.txt` and `*test.txt`, such as `ptb.train.txt`. Every line ends in one more word, `</s>`.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dgl_treestack.errors import DataError

PARTS = ("train", "valid", "test")
END, UNKNOWN = "</s>", "<unk>"
MOST_BYTES = 1 << 20  # of a line: more is no sentence
# What the Penn Treebank's files have, counting the ends of sentences (Mikolov's preparation).
PENN = {"words": 10_000, "train": 929_589, "valid": 73_760, "test": 82_430}
ENOUGH_WORDS = 5_000  # of a text with <unk> and N that is taken for the Penn Treebank, whole or not


@dataclass(frozen=True, eq=False)
class Corpus:
    """words: the vocabulary, as words first appear. parts: train, valid, test -> (T,) numbers of words, sentences ended."""

    words: tuple[str, ...]
    parts: Mapping[str, np.ndarray]

    @property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of words and parts: what a run was trained on."""
        words = hashlib.sha256("\n".join(self.words).encode()).hexdigest()
        return {"words": words, **{part: hashlib.sha256(tokens.tobytes()).hexdigest() for part, tokens in self.parts.items()}}

    @classmethod
    def read(cls, folder: Path) -> "Corpus":
        """Read a folder, line by line. Raises DataError with file and line for what is no such text."""
        numbers: dict[str, int] = {END: 0}
        paths = {part: _find(folder, part) for part in PARTS}
        parts = {part: _numbered(path, numbers, grows=part == "train") for part, path in paths.items()}
        corpus = cls(tuple(numbers), parts)
        corpus._check_penn(folder)
        return corpus

    def _check_penn(self, folder: Path) -> None:
        """A text that looks like the Penn Treebank has to be the whole of it, or figures could not be compared."""
        if len(self.words) < ENOUGH_WORDS or UNKNOWN not in self.words or "N" not in self.words:
            return
        found = {"words": len(self.words), **{part: len(tokens) for part, tokens in self.parts.items()}}
        if found != PENN:
            raise DataError(
                f"It looks like the Penn Treebank, which has {PENN}, counting ends of sentences, but has {found}.", folder
            )


def _find(folder: Path, part: str) -> Path:
    if (folder / f"ptb.{part}.txt").is_file():  # beside which there may be ptb.char.*.txt
        return folder / f"ptb.{part}.txt"
    found = sorted(folder.glob(f"*{part}.txt")) if folder.is_dir() else []
    if len(found) != 1:
        what = "there are several" if found else "there is none"
        raise DataError(f"A folder of text has one file ending in {part}.txt, such as ptb.{part}.txt; {what}.", folder)
    return found[0]


def _numbered(path: Path, numbers: dict[str, int], *, grows: bool) -> np.ndarray:
    """The words of a file as numbers. New ones get the next number where the vocabulary grows, else they are unknown."""
    found = array("i")
    for line, words in _sentences(path):
        for word in words:
            number = numbers.get(word)
            if number is None and grows:
                number = numbers.setdefault(word, len(numbers))
            if number is None:
                number = numbers.get(UNKNOWN)
            if number is None:
                raise DataError(
                    f"{word!r} does not occur in the training text, which has no {UNKNOWN} to stand for it.", path, line
                )
            found.append(number)
        found.append(numbers[END])
    if len(found) == 0:
        raise DataError("There are no sentences in the file.", path)
    return np.frombuffer(found, dtype=np.int32).copy()


def _sentences(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and words of every line that is not blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_BYTES + 1), b""), 1):
                if len(line) > MOST_BYTES:
                    raise DataError(
                        f"The line has more than {MOST_BYTES} bytes. A sentence stands on a line of its own.", path, number
                    )
                try:
                    words = line.decode("utf-8-sig" if number == 1 else "utf-8").split()
                except UnicodeDecodeError:
                    raise DataError("Not UTF-8 text.", path, number) from None
                if any("\0" in word for word in words):
                    raise DataError("A zero byte: this is no text.", path, number)
                if END in words:
                    raise DataError(f"The word {END} is what sentences are ended with; take it out.", path, number)
                if words:
                    yield number, words
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
