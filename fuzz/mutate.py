"""Damage: changed texts, bytes and JSON values, from a seeded source."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

CHARACTERS = "()[]{}\"'=+-*/^_.,:; \t\n\r\0\\#%$@!?&|<>~`aexyzπ∞é\u202e\ufeff0123456789"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-308, float("inf"), float("nan")),
    *("", " ", "a", "\0", "x" * 5000, "../../etc/passwd", "/", "é", "1" * 400),
    *([], [[]], [None], [1, 2, 3], {}, {"": {}}, {"a": [1]}),
)


def text(source: random.Random, given: str, others: Sequence[str] = ()) -> str:
    """Return a text with up to five changes. others: texts of which parts may be put in."""
    for _ in range(source.choice((1, 1, 1, 2, 3, 5))):
        place = source.randint(0, len(given))
        end = min(len(given), place + source.choice((0, 1, 1, 2, 5, 20)))
        kind = source.randrange(6)
        if kind == 0:
            new = source.choice(CHARACTERS) * source.choice((1, 1, 1, 2, 50))
        elif kind == 1:
            new = ""
        elif kind == 2:
            start = source.randint(0, len(given))
            new = given[start : start + source.randint(1, 30)]
        elif kind == 3 and others:
            other = source.choice(others)
            start = source.randint(0, len(other))
            new = other[start : start + source.randint(1, 60)]
        elif kind == 4:
            new = chr(source.choice((source.randrange(0x80), source.randrange(0xD800), source.randrange(0xE000, 0x110000))))
        else:
            new = str(source.choice(VALUES))[:60]
        given = given[:place] + new + given[end:]
    return given[: source.randrange(len(given) + 1)] if source.random() < 0.05 else given


def content(source: random.Random, given: bytes) -> bytes:
    """Return bytes with one to four changes: flipped bits, pieces deleted, repeated, zeroed or cut off."""
    changed = bytearray(given)
    for _ in range(source.randint(1, 4)):
        if not changed:
            return bytes(source.randrange(256) for _ in range(source.randrange(20)))
        place = source.randrange(min(len(changed), source.choice((16, 400, len(changed)))))
        end = place + source.choice((1, 2, 8, 100))
        kind = source.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << source.randrange(8)
        elif kind == 1:
            del changed[place:end]
        elif kind == 2:
            changed[place:place] = changed[place:end]
        elif kind == 3:
            changed[place:end] = bytes(len(changed[place:end]))
        elif kind == 4:
            changed[place:end] = bytes(source.randrange(256) for _ in changed[place:end])
        else:
            del changed[place:]
    return bytes(changed)


def plain(source: random.Random, data: Any) -> Any:
    """Return plain data in which one value, key or entry is another one."""
    data = json.loads(json.dumps(data))
    places: list[tuple[Any, Any]] = []
    pending = [data]
    while pending:
        home = pending.pop()
        keys = list(home) if isinstance(home, dict) else range(len(home))
        for key in keys:
            places.append((home, key))
            if isinstance(home[key], dict | list):
                pending.append(home[key])
    if not places or source.random() < 0.03:
        return source.choice(VALUES)
    home, key = source.choice(places)
    changes: list[Callable[[], Any]] = [
        lambda: home.__setitem__(key, source.choice(VALUES)),
        lambda: home.__setitem__(key, [home[key]]),
        lambda: home.__delitem__(key),
    ]
    if isinstance(home, dict):
        changes.append(lambda: home.__setitem__(source.choice(("", "a", key + "x")), home.pop(key)))
    else:
        changes.append(lambda: home.insert(key, home[key]))
    if isinstance(home[key], str):
        changes.append(lambda: home.__setitem__(key, text(source, home[key])))
    elif type(home[key]) in (int, float):
        changes.append(lambda: home.__setitem__(key, home[key] * source.choice((-1, 0, 2, 1e6)) + source.choice((0, 1, 0.5))))
    source.choice(changes)()
    return data


def nested(source: random.Random) -> str:
    """Return JSON of brackets, deeper than a recursive reader bears."""
    depth = source.choice((900, 3_000, 100_000))
    return source.choice(("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
