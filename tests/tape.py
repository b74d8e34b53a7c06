"""What stands for a CUDA graph where there is no GPU: operations are recorded once and replayed on the same tensors."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

FROM_THE_HOST = ("_local_scalar_dense", "lift_fresh", "nonzero", "unique")  # operations that depend on values, or on the host


class Tape(TorchDispatchMode):
    """The operations of a block, which `replay` runs again on the same tensors, as a CUDA graph does."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        assert not any(name in str(operation) for name in FROM_THE_HOST), operation
        result = operation(*args, **(kwargs or {}))
        if not any(part.alias_info and not part.alias_info.is_write for part in operation._schema.returns):  # a view
            self.operations.append((operation, args, kwargs or {}, result))
        return result

    def replay(self):
        for operation, args, kwargs, results in self.operations:
            with torch._C._AutoDispatchBelowAutograd():  # as in the recording
                again = operation(*args, **kwargs)
            for result, value in zip(*([x] if torch.is_tensor(x) else x or () for x in (results, again)), strict=True):
                if torch.is_tensor(result) and result.data_ptr() != value.data_ptr():
                    result.detach().copy_(value)


def record(step):
    """Record a function, and return one that repeats its operations."""
    step()  # a first time: what is kept is then there
    with Tape() as tape:
        step()
    return tape.replay
