"""NVIDIA's compiler of CUDA C, from its wheel, by ctypes: it needs no device."""

import ctypes
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

OPTIONS = (b"--std=c++17", b"--device-as-default-execution-space", b"-ftz=true")  # those of CuPy
WHEELS = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc")


class Refused(Exception):
    """The compiler's log."""


class Compiler:
    """NVRTC.

    Args:
        path: of the library.
    """

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def compile(self, source: str, architecture: str) -> bytes:
        """Return PTX for an architecture such as `compute_90`, or machine code for one such as `sm_90`.

        Raises:
            Refused: when the source has errors, or a warning.
        """
        library, program = self._library, ctypes.c_void_p()
        self._must(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"loops.cu", 0, None, None))
        options = [f"--gpu-architecture={architecture}".encode(), *OPTIONS]
        try:
            result = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
            log = self._get(program, "ProgramLog").rstrip(b"\0\n").decode()
            if result != 0 or log:
                raise Refused(log)
            return self._get(program, "PTX" if architecture.startswith("compute") else "CUBIN")
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._must(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._must(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _must(self, result: int) -> None:
        assert result == 0, f"NVRTC: error {result}"


def compiler() -> Compiler:
    """Return NVRTC, or skip the test where its wheel is missing."""
    for wheel in WHEELS:
        try:
            found = [file for file in files(wheel) or () if file.match("libnvrtc.so.*")]
        except PackageNotFoundError:
            continue
        return Compiler(Path(str(found[0].locate())))
    pytest.skip(f"needs NVRTC: pip install {WHEELS[0]}")
