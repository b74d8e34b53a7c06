"""Scales of experiments: data, epochs, seeds. They are in `scales.toml`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.experiments._protocol import read_data
from dgl_treestack.resources import find_data


@dataclass(frozen=True)
class Scale:
    """The scale of an experiment.

    data: files by kind (train, validation, test). other_data: those of further sets, by the names that protocols use. extras:
    further files that extras are made of, by name. changes: values replaced in every configuration. own: values replaced in
    single configurations, by their names, after `changes` and before those of a row. left_out: protocols that `all` does not
    mean at this scale. only: those that it means, all others by default. differs: what differs from the papers in all rows.
    """

    summary: str
    data: Mapping[str, str]
    extras: Mapping[str, str]
    seeds: Sequence[int]
    changes: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    only: Sequence[str] = ()
    other_data: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    differs: str = ""

    def file(self, name: str) -> str:
        """Return the file of an extra: of a kind of `data`, or in `extras`."""
        return self.extras[name] if name in self.extras else self.data[name]

    def files(self, name: str) -> Mapping[str, str]:
        """Return the files by kind of the set of a name, '' for `data`. Raises ConfigurationError for an unknown name."""
        if name and name not in self.other_data:
            raise ConfigurationError(unknown("set", name, self.other_data))
        return self.other_data[name] if name else self.data


SCALES = {name: Scale(**entries) for name, entries in read_data("scales.toml").items()}


def check_data(scale: Scale, extras: Iterable[str] = (), sets: Iterable[str] = ("",)) -> None:
    """Raise DataError when a file of a scale does not exist. extras, sets: names of files that are needed."""
    files = [file for name in sets for file in scale.files(name).values()]
    for name in (*files, *map(scale.file, extras)):
        path = find_data(name)
        if not path.is_file():
            size = {"paper-130k": 130_000, "paper-1m": 1_000_000}.get(path.parent.name)
            preset = f"paper --train-size {size}" if size else path.parent.name
            command = f"treestack generate {preset} --output-dir {path.parent}"
            raise DataError(f"It does not exist. Generate it with `{command}`, or use --scale smoke.", path)
