"""The device, by CuPy, which is imported only here and only when a device is asked for; and what is missing for it.

A failure that leaves the device usable is an error like others. After some, such as an access outside of all memory, or
a kernel that the driver has ended, every further call of the process fails, as CUDA does not mend a context. Then the
process ends: the supervisor blames what it was executing, starts another, and rebuilds all other sessions there.
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

__all__ = ["EXIT_STATUS", "Device", "missing", "open_device"]

EXIT_STATUS = 70  # of a process whose context is lost; EX_SOFTWARE of sysexits.h
NEEDED = "CUDA needs an NVIDIA GPU with its driver, and CuPy (pip install 'aiocg[cuda]')"
NOTHING = 'extern "C" __global__ void nothing() {}'
DRIVER = "libcuda.so.1"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation


class Device:
    """The first device that this process sees.

    Attributes:
        cupy: the module.
        stream: on which everything is done.
        description: the model, and the versions of what is used.
        lock: its name among the devices of this machine.
    """

    def __init__(self, cupy: Any) -> None:
        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(0)
        major, minor = divmod(runtime.driverGetVersion(), 1000)
        nvrtc = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.multiprocessors: int = properties["multiProcessorCount"]
        self.description = (
            f"{properties['name'].decode()}, compute capability {properties['major']}.{properties['minor']}, "
            f"{self.multiprocessors} multiprocessors, driver for CUDA {major}.{minor // 10}, NVRTC {nvrtc}"
        )
        self.lock = "cuda-" + runtime.deviceGetPCIBusId(0).replace(":", "-").lower()

    def try_out(self) -> None:
        """Compile a kernel and run it, which takes all the libraries that there must be."""
        with self.stream:
            self.cupy.RawModule(code=NOTHING).get_function("nothing")((1,), (1,), ())
            self.stream.synchronize()

    def free_memory(self) -> int:
        """Return how many bytes are free."""
        free: int = self.cupy.cuda.runtime.memGetInfo()[0]
        return free

    @contextmanager
    def use(self) -> Iterator[None]:
        """Do everything inside on the device's stream.

        Raises:
            MemoryError: when the device has too little memory.
            CompilationError: with `FailureCode.OBSERVATION` when anything else fails. When nothing can work any more,
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
        """Does what is always possible fail again and again? Once may be for an earlier failure."""
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
        CompilationError: with `FailureCode.UNSUPPORTED`, saying all that is missing.
    """
    _lift_address_space_limit()
    problems = missing()
    if problems:
        raise _unsupported("; ".join(problems))
    # New kernels come by the thousand in a search, and hardly ever a second time: none is written to ~/.cupy.
    os.environ.setdefault("CUPY_CACHE_IN_MEMORY", "1")
    try:
        device = Device(importlib.import_module("cupy"))
        device.try_out()
        return device
    except Exception as error:  # an ImportError, one of the loader's, or CUDA's: all say what does not fit together
        raise _unsupported(
            "CuPy does not work here, as when libraries of the CUDA toolkit are missing: "
            f"{type(error).__name__}: {error}"
        ) from error


def missing() -> list[str]:
    """Return what a device needs and this machine lacks, in sentences for people, without importing CuPy."""
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
    """Allow this process all the address space that it may have.

    CUDA reserves addresses for the memory of all devices and of the machine, which is far more than it uses.
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
    """End this process at once: nothing that would be tidied up can be reached any more."""
    print(f"the device's context is lost, so this process ends: {error}", file=sys.stderr, flush=True)
    os._exit(EXIT_STATUS)
