"""The fixed points at which equations are evaluated."""

import hashlib
from functools import lru_cache

REAL_POINTS, WIDE_POINT = 8, 16
POINTS = 24


@lru_cache(maxsize=4096)
def value_of(variable: str, point: int) -> complex:
    """Return the value of a variable at a point of the fixed set, to four decimals.

    Points 0 to 3 are positive, 4 to 7 real, the others complex.
    """
    digest = hashlib.sha256(f"{variable}:{point}".encode()).digest()
    first, second = (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in (0, 4))
    if point < 4:
        return complex(round(0.15 + 1.3 * first, 4), 0.0)
    if point < REAL_POINTS:
        return complex(round((0.3 + 2.4 * first) * (1 if second < 0.5 else -1), 4), 0.0)
    width, height = (3.0, 1.1) if point < WIDE_POINT else (6.2, 1.8)
    imaginary = (0.15 + height * abs(2 * second - 1)) * (1 if second < 0.5 else -1)
    return complex(round(width * (first - 0.5), 4), round(imaginary, 4))
