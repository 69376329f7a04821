"""LLVM: modules are optimised for this machine's processor and become code in this process.

Everything that a module is made of lies in a context of its own, so that several threads can compile at once; what they
do in LLVM itself they do one after another, for llvmlite has one lock, but Python runs meanwhile.
"""

import weakref
from functools import cache

from llvmlite import binding as llvm
from llvmlite import ir

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

__all__ = ["Code", "assembly", "cpu_name", "declare", "vector_length"]


class _Attributes(ir.FunctionAttributes):  # type: ignore[misc]
    """Attributes of functions, also those that llvmlite does not know."""

    _known = ir.FunctionAttributes._known | {
        '"no-builtins"',  # a loop that copies stays a loop
        '"prefer-vector-width"="512"',  # vectors are as long as the schedule says, as far as the processor has them
    }


class Code:
    """A compiled module.

    Attributes:
        ir: what was compiled, before it was optimised.
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
        """Return where a function is."""
        return int(self._engine.get_function_address(name))


def _free(engine: llvm.ExecutionEngine, context: llvm.ContextRef) -> None:
    """Free a module's code, and then what it lies in: the garbage collector knows of no order, and LLVM needs this."""
    engine.close()
    context.close()


def assembly(source: str) -> str:
    """Return the processor's instructions for a module, as text."""
    machine = _machine()
    compiled = llvm.parse_assembly(source, llvm.create_context())
    _optimize(compiled, machine)
    return str(machine.emit_assembly(compiled))


def declare(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """Add a function of loops: it does nothing but compute, and no two of its pointers lead to the same."""
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes = _Attributes(("noinline", "nounwind", *_Attributes._known - ir.FunctionAttributes._known))
    for argument in function.args:
        if isinstance(argument.type, ir.PointerType):
            argument.add_attribute("noalias")
    return function


@cache
def cpu_name() -> str:
    """Return what LLVM calls this machine's processor."""
    return str(llvm.get_host_cpu_name())


@cache
def vector_length() -> int:
    """Return how many `float32` the longest vectors of this machine's processor have."""
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx") else 4


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
    """Run LLVM's passes, but for those that would do what a schedule is to say: vectorise and unroll."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_interleaving = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:  # llvmlite 0.50 hides what frees it: 0.1 MiB each time
        llvm.NewPassManager._dispose(passes)
