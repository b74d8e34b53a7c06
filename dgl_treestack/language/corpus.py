"""A text in the form of the Penn Treebank files: one sentence a line, words separated by blanks.

A folder holds `*train.txt`, `*valid.txt` and `*test.txt`, such as `ptb.train.txt`. The word `</s>` is added to every line.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dgl_treestack.data.formats import read_lines
from dgl_treestack.errors import DataError

PARTS = ("train", "valid", "test")
END, UNKNOWN = "</s>", "<unk>"
MOST_CHARACTERS = 1 << 20  # of a line
# Sizes of the Penn Treebank's files, counting the ends of sentences (Mikolov's preparation).
PENN = {"words": 10_000, "train": 929_589, "valid": 73_760, "test": 82_430}
# A text with <unk>, N and a vocabulary of this size counts as the Penn Treebank or a part of it; a cut one was once taken.
ENOUGH_WORDS = 5_000


@dataclass(frozen=True, eq=False)
class WordCorpus:
    """A text as word ids.

    words: the vocabulary, in order of first occurrence. parts: train, valid, test -> ids of words (T,), every sentence
    followed by `</s>`, word 0.
    """

    words: tuple[str, ...]
    parts: Mapping[str, np.ndarray]

    @classmethod
    def read(cls, folder: Path) -> "WordCorpus":
        """Read a folder line by line. Raises DataError, with file and line, for malformed text, and for a part of the Penn
        Treebank, as perplexities on it could not be compared with published ones."""
        numbers: dict[str, int] = {END: 0}
        parts: dict[str, np.ndarray] = {}
        for part, path in files_of(folder).items():
            tokens = array("i")  # four bytes a word, where a list of integers takes forty
            for line, text in enumerate(read_lines(path), 1):
                words, fault = text.split(), ""
                if len(text) > MOST_CHARACTERS:
                    fault = f"The line has more than {MOST_CHARACTERS} characters. One line holds one sentence."
                elif "\0" in text:
                    fault = "A zero byte: this is no text."
                elif END in words:
                    fault = f"The word {END} is reserved for ends of sentences. Remove it."
                for word in words if part == "train" else ():
                    numbers.setdefault(word, len(numbers))
                other = numbers.get(UNKNOWN, -1)
                ids = [numbers.get(word, other) for word in words]
                if -1 in ids:
                    word = words[ids.index(-1)]
                    fault = f"{word!r} does not occur in the training text, which has no {UNKNOWN} to replace it."
                if fault:
                    raise DataError(fault, path, line)
                tokens.extend([*ids, numbers[END]] if words else [])
            if len(tokens) == 0:
                raise DataError("There are no sentences in the file.", path)
            parts[part] = np.frombuffer(tokens, dtype=np.int32).copy()
        sizes = {"words": len(numbers), **{part: len(tokens) for part, tokens in parts.items()}}
        if len(numbers) >= ENOUGH_WORDS and UNKNOWN in numbers and "N" in numbers and sizes != PENN:
            raise DataError(
                f"It looks like the Penn Treebank, which has {PENN}, counting ends of sentences, but has {sizes}.", folder
            )
        return cls(tuple(numbers), parts)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a folder of text by part. Raises DataError for a folder without one of them."""
    paths = {part: folder / f"ptb.{part}.txt" for part in PARTS}  # a folder may contain ptb.char.*.txt besides
    for part in [part for part, path in paths.items() if not path.is_file()]:
        candidates = list(folder.glob(f"*{part}.txt"))
        if len(candidates) != 1:
            number = "there are several" if candidates else "there is none"
            raise DataError(f"A folder of text has one file ending in {part}.txt, such as ptb.{part}.txt; {number}.", folder)
        paths[part] = candidates[0]
    return paths
