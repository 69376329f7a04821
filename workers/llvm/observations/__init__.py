"""The observation spaces of the LLVM environments, by name. Each kind has its module; this one joins them."""

from aiocg.workers.compilation import Observation
from aiocg.workers.llvm.observations import (
    _counts as counts,
)
from aiocg.workers.llvm.observations import (
    _ir2vec as ir2vec,
)
from aiocg.workers.llvm.observations import (
    _lexed_ir as lexed_ir,
)
from aiocg.workers.llvm.observations import (
    _machine as machine,
)
from aiocg.workers.llvm.observations import (
    _program as program,
)
from aiocg.workers.llvm.observations import (
    _programl as programl,
)
from aiocg.workers.llvm.observations import (
    _sanitizers as sanitizers,
)
from aiocg.workers.llvm.observations import (
    bitcode_file,
    decisions,
    targets,
)
from aiocg.workers.llvm.observations._observation import Subject

__all__ = ["OBSERVATIONS", "Subject"]

_MODULES = (bitcode_file, counts, decisions, ir2vec, lexed_ir, machine, program, programl, sanitizers, targets)
OBSERVATIONS: dict[str, Observation] = {
    observation.spec.name: observation for module in _MODULES for observation in module.OBSERVATIONS
}
