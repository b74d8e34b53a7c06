"""Generators of random numbers: every draw is a function of a seed, its purpose and its position in a run.

So random streams have no state that a checkpoint would have to hold.
"""

import zlib

import numpy as np
import torch


def numpy_generator(seed: int, purpose: str, *position: int) -> np.random.Generator:
    """Return the NumPy generator of a purpose at a position, such as ("order", epoch)."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *position])


def torch_generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """Return the torch generator of a purpose at a position, such as ("dropout", epoch, step)."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *position])
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))
