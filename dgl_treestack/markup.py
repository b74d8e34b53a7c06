"""Reading TOML and JSON that others may have written or damaged: whatever is wrong is one ValueError.

Python's readers raise RecursionError for brackets that are nested too deeply.
"""

import json
import tomllib
from typing import Any


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises ValueError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # a byte order mark, which some editors write
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
