"""Random streams: every draw of a run is a function of the seed, what it is for, and where in the run it happens.

No state has to be saved for a resumed run to draw the same numbers.
"""

import zlib

import numpy as np
import torch


def _sequence(seed: int, purpose: str, *place: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *place])


def numpy_generator(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """A NumPy generator for a purpose at a place, such as ("order", epoch)."""
    return np.random.default_rng(_sequence(seed, purpose, *place))


def torch_generator(seed: int, purpose: str, *place: int) -> torch.Generator:
    """A torch generator for a purpose at a place, such as ("dropout", epoch, step)."""
    state = int(_sequence(seed, purpose, *place).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator().manual_seed(state)
