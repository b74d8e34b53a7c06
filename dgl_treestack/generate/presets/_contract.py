"""What a preset is: shards of work that know nothing of each other, and a way to put them together."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

Row = dict[str, Any]  # plain data that JSON can hold


@dataclass(frozen=True)
class Options:
    """What a user may ask for; 0 stands for the preset's own value.

    train_size: equations of depth 1-7 in the training fold. max_depth: deepest equations.
    equations: about how many in all, for a smaller or larger set of the same make.
    """

    seed: int
    train_size: int = 0
    max_depth: int = 0
    equations: int = 0


@dataclass(frozen=True)
class Shard:
    """A unit of work: `name` is that of its part, `work` all that it needs beside the options; both are plain data."""

    name: str
    work: Row = field(default_factory=dict)


class Parts(Protocol):
    """The rows of the shards that are made."""

    def names(self) -> Sequence[str]:
        """The names of the parts there are, in alphabetical order."""

    def rows(self, name: str) -> Iterator[Row]:
        """The rows of a part, read from disk one at a time."""


@dataclass
class Product:
    """What becomes files: file name -> lines in the schema of `data/README.md`, taken once and in order. `notes` is put
    into the manifest and printed: what was dropped, what fell short."""

    files: Mapping[str, Iterable[Row]]
    notes: Row = field(default_factory=dict)


class Preset(ABC):
    """A data set that can be made by name.

    summary: one line for `treestack generate --help`. seed: where the user names none. accepts: the options, beside the
    seed, that mean something here.
    The same options give the same product: a shard draws from `np.random.SeedSequence` of the seed and of its own name, and
    never sees another shard.
    """

    summary: ClassVar[str]
    seed: ClassVar[int]
    accepts: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        """The shards to make. Asked again when they are there: more shards for what is still missing, or the same list."""

    @abstractmethod
    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        """The rows of one shard; runs in a process of its own."""

    @abstractmethod
    def finish(self, options: Options, parts: Parts) -> Product:
        """The files, from all parts."""
