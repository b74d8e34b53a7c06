"""Encoders of whole trees, one file each: sequence cells and attention. The table is put together by listing this folder.

An encoder's file defines a class derived from `Encoder` and `MODELS`, which maps model names to `EncoderSpec`.
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
    """Every encoder by name."""
    table: dict[str, EncoderSpec] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_")):
        table.update(importlib.import_module(f"{__name__}.{module}").MODELS)
    return table


def build(name: str, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0, **settings: Any) -> Encoder:
    """The encoder of a model name, uninitialised. Raises ConfigurationError for an unknown name or setting."""
    if name not in encoders():
        raise ConfigurationError(unknown("model", name, encoders()))
    model = encoders()[name]
    try:
        return model.encoder(leaves, operators, hidden, dropout=dropout, **{**model.settings, **settings})
    except TypeError as error:
        raise ConfigurationError(f"Model {name!r}: {str(error).split('() ')[-1]}.") from None
