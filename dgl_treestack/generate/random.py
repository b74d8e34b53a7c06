"""The random stream of a shard."""

import hashlib

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """Return a generator that depends on the seed and a name alone, so that shards can be made in any order."""
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))
