"""Access to the GPU through CuPy, which is imported only here and on demand, and diagnosis of missing parts.

A failure that leaves the device usable is an ordinary error. After others, such as an illegal memory access or a kernel
killed by the driver, every further call in the process fails, because CUDA contexts do not recover. Then the process
exits: the supervisor blames the request being executed, starts another worker, and rebuilds all other sessions there.
"""

import ctypes
import importlib
import importlib.util
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

EXIT_STATUS = 70  # if the CUDA context is lost; EX_SOFTWARE of sysexits.h
NEEDED = "CUDA needs an NVIDIA GPU with its driver, and CuPy (pip install 'aiocg[cuda]')"
NOTHING = 'extern "C" __global__ void nothing() {}'
DRIVER = "libcuda.so.1"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation


class Device:
    """The first device that this process sees.

    Attributes:
        cupy: the module.
        stream: the stream for all work.
        description: the model, and the versions of driver and NVRTC.
        shared_memory: the most that a block can have, in bytes.
        multiprocessors: how many there are.
        has_tensor_cores: whether there are tensor cores for TF32.
        lock: the name of its lock among the devices of this machine.
    """

    def __init__(self, cupy: Any) -> None:
        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(0)
        major, minor = divmod(runtime.driverGetVersion(), 1000)
        nvrtc = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.multiprocessors: int = properties["multiProcessorCount"]
        self.shared_memory: int = properties["sharedMemPerBlockOptin"]
        self.has_tensor_cores: bool = properties["major"] >= 8  # for TF32
        self.description = (
            f"{properties['name'].decode()}, compute capability {properties['major']}.{properties['minor']}, "
            f"{self.multiprocessors} multiprocessors, driver for CUDA {major}.{minor // 10}, NVRTC {nvrtc}"
        )
        self.lock = "cuda-" + runtime.deviceGetPCIBusId(0).replace(":", "-").lower()

    def try_out(self) -> None:
        """Compile and run a kernel, which uses all required libraries."""
        with self.stream:
            self.cupy.RawModule(code=NOTHING).get_function("nothing")((1,), (1,), ())
            self.stream.synchronize()

    def free_memory(self) -> int:
        """Return the bytes of free device memory."""
        free: int = self.cupy.cuda.runtime.memGetInfo()[0]
        return free

    @contextmanager
    def use(self) -> Iterator[None]:
        """Run the context's work on the device's stream.

        Raises:
            MemoryError: if the device has too little memory.
            CompilationError: with `FailureCode.OBSERVATION` if anything else fails. If the device's context is lost,
                the process ends instead.
        """
        cuda = self.cupy.cuda
        try:
            with self.stream:
                yield
        except cuda.memory.OutOfMemoryError as error:
            raise MemoryError(str(error)) from None
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
            if self._is_lost():
                _leave(error)
            if error.status == OUT_OF_MEMORY:
                raise MemoryError(str(error)) from None
            raise CompilationError(FailureCode.OBSERVATION, f"the device refuses: {error}") from error

    def _is_lost(self) -> bool:
        """Return whether trivial calls fail repeatedly; a single failure may stem from an earlier call."""
        return all([self._fails() for _ in range(2)])

    def _fails(self) -> bool:
        try:
            self.cupy.cuda.runtime.deviceSynchronize()
        except self.cupy.cuda.runtime.CUDARuntimeError:
            return True
        return False


def open_device() -> Device:
    """Return the device.

    Raises:
        CompilationError: with `FailureCode.UNSUPPORTED`, listing everything that is missing.
    """
    _lift_address_space_limit()
    problems = _missing()
    if problems:
        raise _unsupported("; ".join(problems))
    # A search compiles thousands of kernels and rarely repeats one, so none is written to ~/.cupy.
    os.environ.setdefault("CUPY_CACHE_IN_MEMORY", "1")
    try:
        device = Device(importlib.import_module("cupy"))
        device.try_out()
        return device
    except Exception as error:  # from the import, the loader or CUDA: each names the mismatch
        raise _unsupported(
            "CuPy does not work here, as when libraries of the CUDA toolkit are missing: "
            f"{type(error).__name__}: {error}"
        ) from error


def _missing() -> list[str]:
    """Describe what this machine lacks for CUDA, without importing CuPy."""
    problems = []
    if importlib.util.find_spec("cupy") is None:
        problems.append("CuPy is not installed (pip install 'aiocg[cuda]')")
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        problems.append(f"there is no NVIDIA driver ({DRIVER} cannot be loaded)")
        return problems
    count = ctypes.c_int()
    result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if result == NO_DEVICE or (result == 0 and count.value == 0):
        problems.append("the NVIDIA driver sees no device (are there a GPU, its device files, CUDA_VISIBLE_DEVICES?)")
    elif result != 0:
        problems.append(f"the NVIDIA driver cannot be used: {_error_name(driver, result)}")
    return problems


def _lift_address_space_limit() -> None:
    """Raise this process's address space limit to the maximum.

    CUDA reserves addresses for the memory of all devices and of the machine, far more than it uses.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _error_name(driver: ctypes.CDLL, result: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(result, ctypes.byref(name))
    return f"{name.value.decode()} ({result})" if name.value else f"error {result}"


def _unsupported(problem: str) -> CompilationError:
    return CompilationError(FailureCode.UNSUPPORTED, f"{NEEDED}: {problem}")


def _leave(error: Exception) -> None:
    """Exit at once: nothing that needs cleaning up is reachable any more."""
    print(f"the device's context is lost, so this process ends: {error}", file=sys.stderr, flush=True)
    os._exit(EXIT_STATUS)
