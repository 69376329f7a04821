"""Asking a library which pipelines it accepts."""

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import LlvmError, Module, TargetMachine

_FUNCTION = b"define void @probe() {\n  ret void\n}\n"
_END = "aiocg-end"  # not a pass: LLVM parses a pipeline from the start and names the first unknown part


class Probe:
    """Tries pipelines on a nearly empty module without running them: some passes crash where they do not fit."""

    def __init__(self, library: Library) -> None:
        self._module = Module.parse(library, _FUNCTION)
        self._function = self._module.function(b"probe")
        # Without a machine LLVM does not even parse the names of some passes. Any machine will do.
        self._machine = TargetMachine.create(library, library.default_triple())

    def close(self) -> None:
        """Free the module."""
        self._module.close()
        if self._machine is not None:
            self._machine.close()

    def __call__(self, pipeline: str) -> bool:
        """Return whether the library accepts this module pipeline."""
        return self.refusal(pipeline) is None

    def refusal(self, pipeline: str, options: tuple[tuple[str, str], ...] = ()) -> str | None:
        """Return LLVM's message refusing a module pipeline, or None."""
        return self._refusal(pipeline, options, None)

    def refusal_on_function(self, pipeline: str) -> str | None:
        """Return LLVM's message refusing a function pipeline, or None."""
        return self._refusal(pipeline, (), self._function)

    def _refusal(self, pipeline: str, options: tuple[tuple[str, str], ...], function: int | None) -> str | None:
        try:
            self._module.run_passes(f"{pipeline},{_END}", self._machine, options, function)
        except LlvmError as error:
            return None if f"'{_END}'" in str(error) else str(error).replace(f",{_END}", "")
        raise AssertionError(f"LLVM has a pass {_END}")
