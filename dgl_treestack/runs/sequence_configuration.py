"""The configurations of runs on sequences: of a language model on a text, and of nets on algorithmic tasks."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dgl_treestack.runs.configuration import Named

if TYPE_CHECKING:
    from dgl_treestack.sequence import RotaryTransformer, SequenceCell

ABOVE_0 = 1e-12


@dataclass(frozen=True)
class TextConfig(Named):
    """The complete configuration of a language model, except for its seed.

    settings: arguments of the cell's class. text: the folder of the text (`language.corpus`). streams: the number of pieces of
    the training text that are read in parallel. window: the number of tokens between updates, through which gradients are
    propagated. clip: bound of the entries of all gradients. factor, patience: after an epoch without a lower validation loss,
    the learning rate is multiplied by `factor` and training continues from the best weights; it ends after `patience` such
    epochs in a row. Adam's moments are reset at the start of every epoch.
    """

    kind: ClassVar[str] = "language model"
    ranges = (
        ("hidden streams window epochs patience checkpoint_steps", 1, math.inf),
        ("learning_rate factor clip", ABOVE_0, math.inf),
    )

    model: Literal["rnn", "lstm", "scrn", "stack_rnn"]
    hidden: int = 100
    settings: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    factor: float = 0.5
    patience: int = 3
    epochs: int = 50
    streams: int = 32
    window: int = 50
    clip: float = 15.0
    checkpoint_steps: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cell()

    def cell(self) -> "SequenceCell":
        """Build the cell, with `hidden` inputs. Raises ConfigurationError for an unknown setting."""
        from dgl_treestack import sequence

        return sequence.build(self.model, self.hidden, {"hidden": self.hidden, **self.settings})


@dataclass(frozen=True)
class StreamRecipe:
    """How restarts are trained.

    updates: the number of updates, each with `tokens` new tokens; with 0, with those up to the next one that is trained, of one
    stream that all restarts read. largest: the largest size of sequences, reached linearly after a share `curriculum` of the
    updates. rate: the learning rate, constant for a share `steady` of the updates, then falling to a hundredth. halving: with
    it the rate does not fall so; after every so many segments each restart is validated, and after the share `steady` the rate
    of a restart that is not better than ever is halved, and its best weights are restored. segment: the number of updates after
    which memories are emptied and new streams begin. beta: the sharpness of actions at the end of rounding, raised in `stages`
    from 1.2, each a fixed factor above the one before.
    """

    updates: int = 4000
    tokens: int = 10
    optimizer: Literal["sgd", "adam"] = "sgd"
    rate: float = 0.1
    largest: int = 19
    curriculum: float = 0.5
    steady: float = 0.65
    halving: int = 0
    segment: int = 20
    beta: float = 1.0
    stages: int = 1


@dataclass(frozen=True)
class StreamTests:
    """The tests of restarts.

    largest: the largest of the consecutive tested sizes. far: further sizes. repeats: sequences per size, from empty memories,
    if sequences of a size differ. streamed: sequences per size in streams and at far sizes.
    """

    largest: int = 60
    far: tuple[int, ...] = (100, 200, 300, 400, 500)
    repeats: int = 20
    streamed: int = 3


@dataclass(frozen=True)
class StreamConfig(Named):
    """The complete configuration of restarts on an algorithmic task, except for their seed.

    task: its name. settings: arguments of the cell's class. restarts: the number of nets. rounding: a second training towards
    hard actions; none without updates.
    """

    kind: ClassVar[str] = "run on an algorithmic task"
    ranges = (
        ("restarts checkpoint_steps recipe.updates recipe.segment recipe.stages", 1, math.inf),
        ("recipe.tokens recipe.halving", 0, math.inf),
        ("recipe.rate", ABOVE_0, math.inf),
    )

    task: str
    model: Literal["rnn", "lstm", "list_rnn", "stack_rnn"]
    settings: dict[str, Any] = field(default_factory=dict)
    restarts: int = 10
    recipe: StreamRecipe = StreamRecipe()
    rounding: StreamRecipe = StreamRecipe(updates=0)
    tests: StreamTests = StreamTests()
    checkpoint_steps: int = 50

    def cell(self, symbols: int) -> "SequenceCell":
        """Build the cells of all restarts. Raises ConfigurationError for an unknown setting."""
        from dgl_treestack import sequence

        return sequence.build(self.model, symbols, self.settings, self.restarts)


@dataclass(frozen=True)
class TransductionConfig(Named):
    """The complete configuration of a net on a transduction, except for its seed.

    transduction: the name of the task. settings: arguments of the model's class. A step is a batch of sequences of one length,
    drawn from 1 to `largest`; an epoch has `steps` of them. clip: bound of the norm of all gradients. Tests are on lengths from
    `largest` + 1 to `tested`, `every` apart, with as many `sequences` of each.
    """

    kind: ClassVar[str] = "run on a transduction"
    ranges = (
        ("largest batch epochs steps every sequences checkpoint_steps", 1, math.inf),
        ("learning_rate clip", ABOVE_0, math.inf),
    )

    transduction: str
    model: Literal["rnn", "lstm", "list_rnn", "stack_rnn", "vector_stack_rnn", "rotary_transformer"]
    settings: dict[str, Any] = field(default_factory=dict)
    largest: int = 40
    batch: int = 128
    epochs: int = 10
    steps: int = 1000
    learning_rate: float = 1e-3
    clip: float = 1.0
    tested: int = 500
    every: int = 17
    sequences: int = 64
    checkpoint_steps: int = 500

    @property
    def tested_lengths(self) -> range:
        """The lengths of the test."""
        return range(self.largest + 1, self.tested + 1, self.every)

    def reader(self, inputs: int) -> "SequenceCell | RotaryTransformer":
        """Build the net without its output layer. Raises ConfigurationError for an unknown setting."""
        from dgl_treestack import sequence

        return sequence.build_reader(self.model, inputs, self.settings)
