"""Encoders of whole trees, one file each (sequence cells and attention), and the table of their model names.

An encoder's file defines a class derived from `Encoder`, and `MODELS`, which maps model names to `EncoderSpec`; the table
collects the files of this folder.
"""

import importlib
import pkgutil
from functools import cache
from typing import Any

from dgl_treestack.encoders._contract import Encoder as Encoder
from dgl_treestack.encoders._contract import EncoderSpec as EncoderSpec
from dgl_treestack.errors import ConfigurationError, unknown


@cache
def encoders() -> dict[str, EncoderSpec]:
    """Return all encoders by name."""
    table: dict[str, EncoderSpec] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")):
        table.update(importlib.import_module(f"{__name__}.{module}").MODELS)
    return table


def build(name: str, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0, **settings: Any) -> Encoder:
    """Return the encoder of a model name, uninitialised.

    leaves, operators, hidden, dropout: as in `Encoder`. settings: override those of the model name.
    Raises ConfigurationError for an unknown name or setting.
    """
    if name not in encoders():
        raise ConfigurationError(unknown("model", name, encoders()))
    spec = encoders()[name]
    try:
        return spec.encoder(leaves, operators, hidden, dropout=dropout, **{**spec.settings, **settings})
    except TypeError as error:
        raise ConfigurationError(f"Model {name!r}: {str(error).split('() ')[-1]}.") from None
