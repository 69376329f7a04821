"""Compiling modules with LLVM for this machine's CPU, in this process.

Each module has its own context, so that several threads can compile. Calls to LLVM itself are serialised by llvmlite's
lock, but other Python code runs meanwhile.
"""

import platform
import weakref
from functools import cache

from llvmlite import binding as llvm
from llvmlite import ir

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError


class _Attributes(ir.FunctionAttributes):  # type: ignore[misc]
    """Function attributes, including those that llvmlite does not know."""

    _known = ir.FunctionAttributes._known | {
        '"no-builtins"',  # a copy loop stays a loop
        '"prefer-vector-width"="512"',  # vectors are as long as the schedule says, if the CPU has such
    }


class Code:
    """A compiled module.

    Attributes:
        ir: the IR before optimisation.
    """

    def __init__(self, module: ir.Module) -> None:
        self.ir = str(module)
        machine = _machine()
        context = llvm.create_context()
        try:
            compiled = llvm.parse_assembly(self.ir, context)
            compiled.verify()
        except RuntimeError as error:
            raise CompilationError(FailureCode.INTERNAL, f"LLVM does not accept the code: {error}") from error
        _optimize(compiled, machine)
        self._engine = llvm.create_mcjit_compiler(compiled, machine)
        self._engine.finalize_object()
        weakref.finalize(self, _free, self._engine, context)

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


def _free(engine: llvm.ExecutionEngine, context: llvm.ContextRef) -> None:
    """Free a module's code before its context, in the order that LLVM needs."""
    engine.close()
    context.close()


def declare(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """Declare a function without side effects beyond its arguments, whose pointers do not alias."""
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes = _Attributes(("noinline", "nounwind", *_Attributes._known - ir.FunctionAttributes._known))
    for argument in function.args:
        if isinstance(argument.type, ir.PointerType):
            argument.add_attribute("noalias")
    return function


@cache
def cpu_name() -> str:
    """Return LLVM's name for this machine's CPU."""
    return str(llvm.get_host_cpu_name())


@cache
def vector_length() -> int:
    """Return the number of `float32` elements in the longest vectors of this machine's CPU."""
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx") else 4


@cache
def vector_registers() -> int:
    """Return the number of vector registers of this machine's CPU."""
    return 32 if vector_length() == 16 or platform.machine() == "aarch64" else 16


@cache
def _initialized() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


def _machine() -> llvm.TargetMachine:
    features = llvm.get_host_cpu_features().flatten()
    return _initialized().create_target_machine(
        cpu=cpu_name(), features=features, opt=3, codemodel="jitdefault", jit=True
    )


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Run LLVM's passes except vectorisation and unrolling, which the schedule decides."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_interleaving = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:  # llvmlite 0.50 leaks 0.1 MiB each time
        llvm.NewPassManager._dispose(passes)
