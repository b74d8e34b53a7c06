"""Vectors of words from a text file as GloVe is published: a word, then numbers, separated by one space, one word per line.

    the 0.418 0.24968 -0.41242
    . . 0.1 -0.2 0.3

Published files have words with spaces, such as `. .`, so the last fields are the numbers, as many as the caller asks for. A
first line of two whole numbers, how many words and how many numbers per word, is skipped: word2vec and fastText write it. A
file may end in `.gz`.
"""

from collections.abc import Set
from pathlib import Path

import numpy as np

from dgl_treestack.data import formats
from dgl_treestack.errors import DataError

LARGEST = float(np.finfo(np.float32).max)


def read(path: Path, words: Set[str], size: int) -> dict[str, np.ndarray]:
    """The vectors (size,), float32, of those words that the file has; of several lines of a word the first counts.

    The file is read once, line by line, and vectors of other words are not kept. Raises DataError with file and line: for a
    line with fewer numbers, and for a line of one of the words with more or with one that is not finite; without a line: for a
    file that is empty or has none of the words.
    """
    vectors: dict[str, np.ndarray] = {}
    number = 0
    for number, text in enumerate(formats.read_lines(path), 1):
        line, fault = text.rstrip(), ""
        count, is_header = line.count(" "), False
        if number == 1 and count == 1 and line.replace(" ", "").isdecimal():  # how many words, how many numbers per word
            header = int(line.split(" ")[1])
            if header == size:
                continue
            # with one number per word, the line may be a word and its number
            count, is_header = (header, True) if size > 1 else (count, False)
        word, *fields = line.rsplit(" ", size)
        first, *others = word.split(" ")
        has_more = bool(others) and word not in words and first in words and all(map(_is_number, others))
        if (line and count < size) or is_header or has_more:
            fault = f"The word has {count} numbers after it, separated by one space, but the table of the model takes {size}. "
            fault += "Set 'model.vector_size' to the size of the file, or copy the file again."
        elif word in words and word not in vectors:
            wrong = [field for field in fields if not _is_number(field)]
            if wrong:
                fault = f"{wrong[0]!r} is no finite number. Correct the line, or take it out."
            else:
                vectors[word] = np.array([float(field) for field in fields], dtype=np.float32)
        if fault:
            raise DataError(fault, path, number)
    if not vectors:
        empty = "The file is empty. A line is a word and its numbers, separated by one space."
        none = f"None of the {len(words)} words of the data is in the file. Words match letter by letter."
        raise DataError(none if number else empty, path)
    return vectors


def _is_number(text: str) -> bool:
    """Whether a text is a number that a float32 can hold."""
    try:
        return abs(float(text)) <= LARGEST
    except ValueError:
        return False
