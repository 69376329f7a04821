"""The program as a file, for tools that need one."""

import functools
import tempfile
from pathlib import Path

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError, Observation
from aiocg.workers.files import replace_file
from aiocg.workers.llvm.observations._observation import Subject

_chosen: str | None = None


def _bitcode_file(subject: Subject) -> str:
    """Write the bitcode to a file named by the state's hash, unless it exists, and return its path."""
    if _chosen == "":
        raise CompilationError(
            FailureCode.OBSERVATION,
            "BitcodeFile is a file on the worker's machine, which is another one: observe Bitcode instead",
        )
    content = subject.engine.bitcode(subject.state)
    try:
        path = _folder() / f"{subject.state.hash:016x}.bc"
        if not path.exists() or path.stat().st_size != len(content):
            replace_file(path, content)
    except OSError as error:
        raise CompilationError(
            FailureCode.OBSERVATION, f"BitcodeFile: no file can be written ({error}); free some space, or set TMPDIR"
        ) from None
    return str(path)


def use_folder(folder: str | None) -> None:
    """Set the folder for the files; None means a folder of this process, and "" means that no files are written."""
    global _chosen
    _chosen = folder


def _folder() -> Path:
    folder = Path(_chosen or _own_folder().name) / "bitcode"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@functools.cache
def _own_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="aiocg-", ignore_cleanup_errors=True)


OBSERVATIONS = (
    Observation.of(
        "BitcodeFile",
        "text",
        "Path of a file with the program as bitcode, which is there until the runtime is closed.",
        _bitcode_file,
        deterministic=False,
    ),
)
