"""The contract of a preset: shards of work that are made independently, and a last step that turns them into files."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

Row = dict[str, Any]  # plain data that JSON can hold


@dataclass(frozen=True)
class Options:
    """What a user may ask for; 0 stands for the preset's own value.

    train_size: equations of depth 1-7 in the training fold. max_depth: depth of the deepest equations.
    equations: approximate number of equations in all, for a smaller or larger set of the same composition.
    """

    seed: int
    train_size: int = 0
    max_depth: int = 0
    equations: int = 0


@dataclass(frozen=True)
class Shard:
    """A unit of work. `name` is also the name of the part that stores its rows; `work` is plain data that holds everything
    the shard needs besides the options."""

    name: str
    work: Row = field(default_factory=dict)


class Parts(Protocol):
    """The stored rows of the shards that have been made."""

    def names(self) -> Sequence[str]:
        """Return the names of the stored parts in alphabetical order."""

    def rows(self, name: str) -> Iterator[Row]:
        """Read the rows of a part from disk, one at a time."""


@dataclass
class Product:
    """The result of a preset. files: file name -> lines in the schema of `data/README.md`, consumed once and in order.
    notes: entries for the manifest, also printed, such as the number of equations dropped or missing."""

    files: Mapping[str, Iterable[Row]]
    notes: Row = field(default_factory=dict)


class Preset(ABC):
    """A data set that can be made by name.

    summary: one line for `treestack generate --help`. seed: the default seed. accepts: the options, besides the seed, that
    the preset uses; all others are refused.
    The same options give the same product: a shard draws its random numbers from `np.random.SeedSequence` of the seed and of
    its own name, and never reads another shard.
    """

    summary: ClassVar[str]
    seed: ClassVar[int]
    accepts: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        """Return the shards to make, those already made included. Called again once all of them are made, until it returns
        no new shard."""

    @abstractmethod
    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        """Generate the rows of one shard; may run in a process of its own."""

    @abstractmethod
    def finish(self, options: Options, parts: Parts) -> Product:
        """Build the files from all parts."""
