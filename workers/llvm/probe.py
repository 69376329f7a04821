"""Asking a library which pipelines it takes."""

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import LlvmError, Module, TargetMachine

_FUNCTION = b"define void @probe() {\n  ret void\n}\n"
_END = "aiocg-end"  # no pass: LLVM reads a pipeline from its beginning and names the first thing that it does not know


class Probe:
    """A next to empty module for pipelines, none of which is run: some passes end the process where they do not fit."""

    def __init__(self, library: Library) -> None:
        self._module = Module.parse(library, _FUNCTION)
        self._function = self._module.function(b"probe")
        # LLVM does not even read the names of some passes without a machine. Any will do.
        self._machine = TargetMachine.create(library, library.default_triple())

    def close(self) -> None:
        """Free the module."""
        self._module.close()
        if self._machine is not None:
            self._machine.close()

    def __call__(self, pipeline: str) -> bool:
        """Say whether the library takes this pipeline over a module."""
        return self.refusal(pipeline) is None

    def refusal(self, pipeline: str, options: tuple[tuple[str, str], ...] = ()) -> str | None:
        """Return why LLVM does not take a pipeline over a module, in its own words, or None."""
        return self._refusal(pipeline, options, None)

    def refusal_on_function(self, pipeline: str) -> str | None:
        """Return why LLVM does not take a pipeline over a function, in its own words, or None."""
        return self._refusal(pipeline, (), self._function)

    def _refusal(self, pipeline: str, options: tuple[tuple[str, str], ...], function: int | None) -> str | None:
        try:
            self._module.run_passes(f"{pipeline},{_END}", self._machine, options, function)
        except LlvmError as error:
            return None if f"'{_END}'" in str(error) else str(error).replace(f",{_END}", "")
        raise AssertionError(f"LLVM has a pass {_END}")
