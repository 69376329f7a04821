"""The observation spaces of the LLVM environments that the client derives from those of the worker."""

from aiocg.spaces import ObservationSpace

__all__ = ["derived_observations"]


def derived_observations() -> list[ObservationSpace]:
    """Return all derived observation spaces."""
    from aiocg.llvm import inst2vec, ir2vec, lexed_ir, programl

    return [
        *inst2vec.spaces(),
        *ir2vec.spaces(),
        *lexed_ir.spaces(),
        *programl.spaces(),
    ]
