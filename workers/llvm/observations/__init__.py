"""The observation spaces of the LLVM environments, by name. Each kind has its module; this one joins them."""

from aiocg.workers.compilation import Observation
from aiocg.workers.llvm.observations import (
    bitcode_file,
    counts,
    decisions,
    ir2vec,
    lexed_ir,
    machine,
    program,
    programl,
    sanitizers,
    targets,
)
from aiocg.workers.llvm.observations.observation import Subject

__all__ = ["OBSERVATIONS", "Subject"]

_MODULES = (bitcode_file, counts, decisions, ir2vec, lexed_ir, machine, program, programl, sanitizers, targets)
OBSERVATIONS: dict[str, Observation] = {
    observation.spec.name: observation for module in _MODULES for observation in module.OBSERVATIONS
}
