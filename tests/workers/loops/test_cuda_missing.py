"""Without a GPU, or something else that it takes, all that is missing is said before anything else happens."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops.cuda._device import EXIT_STATUS, Device

OPEN = """
import sys
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops.cuda.target import CudaTarget
assert "cupy" not in sys.modules
{before}
try:
    CudaTarget()
except CompilationError as error:
    print(error.code, error.message)
"""
DRIVER = """
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuGetErrorName(int error, const char **name) { *name = error == 804 ? "CUDA_ERROR_COMPAT" : 0; return 0; }
"""
HIDE = "sys.modules['cupy'] = None"
PRETEND = "import importlib.machinery; sys.modules['cupy'] = type(sys)('cupy'); " \
    "sys.modules['cupy'].__spec__ = importlib.machinery.ModuleSpec('cupy', None)"  # fmt: skip


def opened(before: str = "", library_path: Path | None = None) -> str:
    """Return the code and the message of the error with which a process of its own fails to open a device."""
    environment = dict(os.environ) | ({"LD_LIBRARY_PATH": str(library_path)} if library_path else {})
    command = [sys.executable, "-P", "-c", OPEN.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def driver(folder: Path, init: int, count: int) -> Path:
    """Make a library with a driver's name and three of its functions."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, which makes a library with the name of NVIDIA's driver")
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", f"-DINIT={init}", f"-DCOUNT={count}"]
    subprocess.run([*command, "-o", str(folder / "libcuda.so.1")], input=DRIVER, text=True, check=True)
    return folder


def test_all_that_is_missing_is_said(tmp_path: Path) -> None:
    message = opened(HIDE, driver(tmp_path, init=100, count=0))
    assert message.startswith(FailureCode.UNSUPPORTED)
    assert "CuPy is not installed (pip install 'aiocg[cuda]')" in message
    assert "the NVIDIA driver sees no device" in message


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("init", "count", "says"),
    [(0, 0, "sees no device"), (804, 0, "cannot be used: CUDA_ERROR_COMPAT (804)"), (999, 0, "error 999")],
)
def test_it_is_said_what_the_driver_says(tmp_path: Path, init: int, count: int, says: str) -> None:
    message = opened(PRETEND, driver(tmp_path, init, count))
    assert says in message
    assert "CuPy is not installed" not in message


def test_a_cupy_that_does_not_work_is_said(tmp_path: Path) -> None:
    message = opened(PRETEND, driver(tmp_path, init=0, count=1))
    assert message.startswith(FailureCode.UNSUPPORTED)
    assert "CuPy does not work here" in message
    assert "AttributeError" in message  # of the empty module


def test_a_missing_driver_is_said() -> None:
    with contextlib.suppress(OSError):
        import ctypes

        ctypes.CDLL("libcuda.so.1")
        pytest.skip("needs a machine without NVIDIA's driver")
    assert "there is no NVIDIA driver (libcuda.so.1 cannot be loaded)" in opened()


@pytest.fixture
def device() -> Any:
    """A device that is none: CuPy's errors are real, and so is that nothing works."""
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("needs CuPy: pip install 'aiocg[cuda]'")
    found = Device.__new__(Device)
    found.cupy = importlib.import_module("cupy")
    found.stream = contextlib.nullcontext()
    return found


def test_memory_that_the_device_has_not_is_no_reason_to_end(device: Any) -> None:
    with pytest.raises(MemoryError, match="Out of memory"), device.use():
        raise device.cupy.cuda.memory.OutOfMemoryError(1 << 40, 0, 0)


def test_a_failure_after_which_the_device_works_is_an_error(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_fails", lambda: False)
    with pytest.raises(CompilationError, match="cudaErrorInvalidConfiguration") as caught, device.use():
        raise device.cupy.cuda.runtime.CUDARuntimeError(9)
    assert caught.value.code == FailureCode.OBSERVATION


def test_a_failure_after_which_nothing_works_ends_the_process(device: Any) -> None:
    script = (
        "import contextlib, cupy\n"
        "from aiocg.workers.loops.cuda._device import Device\n"
        "device = Device.__new__(Device)\n"
        "device.cupy, device.stream = cupy, contextlib.nullcontext()\n"
        "with device.use():\n"
        "    raise cupy.cuda.runtime.CUDARuntimeError(700)\n"
    )
    if not device._fails():
        pytest.skip("needs a machine without a GPU, or one that is broken")
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == EXIT_STATUS
    assert "context is lost" in done.stderr
    assert "cudaErrorIllegalAddress" in done.stderr
