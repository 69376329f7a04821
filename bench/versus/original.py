"""Installs the original, CompilerGym 0.2.5, for a Python that it can be used with, and says what it lacks."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.versus import stand_ins

VERSION = "0.2.5"
PYTHONS = ((3, 8), (3, 9), (3, 10))  # that it was published for
# gym 0.21's metadata is refused by later pips and setuptools; what the original needs has changed its interface since.
BUILD = ("pip<24.1", "setuptools<66", "wheel<0.40")
PACKAGES = (f"compiler_gym=={VERSION}", "pydantic<2", "numpy<1.24")
RUNTIME = "https://dl.fbaipublicfiles.com/compiler_gym/llvm-v0-linux.tar.bz2"
REACH = 10.0  # seconds to wait for the server of that archive
INSTALL = 600.0  # seconds
SHARED_MEMORY = Path("/dev/shm")  # where the original has its short-lived files by default

_DOWNLOAD = "from compiler_gym.third_party.llvm import download_llvm_files; download_llvm_files()"
_WHERE = "import importlib.util as u; print(u.find_spec('compiler_gym').submodule_search_locations[0])"
_LOADS = "import ctypes; ctypes.CDLL('libtinfo.so.5')"


class CannotRun(Exception):
    """The original cannot run here.

    Attributes:
        why: the reason.
        needed: what would help.
    """

    def __init__(self, why: str, needed: str) -> None:
        super().__init__(f"{why}; {needed}")
        self.why = why
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Original:
    """An installed original.

    Attributes:
        python: the interpreter of its virtual environment.
        package: its folder.
        environment: variables that it is started with.
        replaced: what it has been given in place of what it lacks here, for the reader.
    """

    python: Path
    package: Path
    environment: dict[str, str]
    replaced: list[str] = field(default_factory=list)

    @property
    def shipped_program(self) -> Path:
        """The one LLVM 10 bitcode file that is part of its wheel."""
        return self.package / "third_party" / "cbench" / "cbench-v1" / "crc32.bc"


def find_python(given: Path | None) -> Path:
    """Return a Python that the original can be installed for.

    Args:
        given: the user's choice; PATH and pyenv are searched if None, the latest version first.

    Raises:
        CannotRun: if there is none, or the given one is another version.
    """
    for candidate in [given] if given is not None else _candidates():
        version = _version(candidate)
        if version in PYTHONS:
            return candidate
        if given is not None:
            found = f"is Python {version[0]}.{version[1]}" if version else "is no Python that starts"
            raise CannotRun(f"{given} {found}", "give --python an interpreter of version 3.8, 3.9 or 3.10")
    raise CannotRun(
        "there is no Python 3.8, 3.9 or 3.10 on PATH or in pyenv, and the original's packages exist for no later one",
        "install one (`pyenv install 3.9`) or name it with --python",
    )


def _candidates() -> Iterator[Path]:
    for major, minor in reversed(PYTHONS):
        on_path = shutil.which(f"python{major}.{minor}")
        if on_path:
            yield Path(on_path)
        root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        yield from sorted(root.glob(f"versions/{major}.{minor}.*/bin/python"), reverse=True)


def _version(python: Path) -> tuple[int, int] | None:
    command = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.split()
        return int(printed[0]), int(printed[1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None  # pyenv's shims fail where the version is not selected


async def install(python: Path, folder: Path) -> Path:
    """Make the virtual environment, unless it is there already, and return its interpreter.

    Raises:
        CannotRun: when pip fails.
    """
    version = _version(python) or (0, 0)
    place = folder / f"compiler_gym-{VERSION}-python{version[0]}.{version[1]}"
    interpreter, whole = place / "bin" / "python", place / "installed"
    if whole.exists():
        return interpreter
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    pip = (str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    await _run((str(python), "-m", "venv", str(place)), "making a virtual environment")
    await _run((*pip, *BUILD), "installing an older pip")
    await _run((*pip, "--no-build-isolation", *PACKAGES), f"installing compiler_gym {VERSION}")
    whole.touch()
    return interpreter


async def _run(command: tuple[str, ...], doing: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_clean_environment()
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), INSTALL)
    except TimeoutError:
        raise CannotRun(f"{doing} took more than {INSTALL:.0f} s", "see whether the package index answers") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise CannotRun(f"{doing} failed: {text[-500:]}", "its pip needs a package index with packages of 2022")
    return text


def _clean_environment() -> dict[str, str]:
    """Return our environment without what would lead another Python to our packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


async def prepare(python: Path | None, venvs: Path, scratch: Path) -> Original:
    """Install the original and give it what it needs to start.

    Its LLVM environments want an archive with clang 10 and other programs, which they fetch when they are first used.
    Where it cannot be had, they run with stand-ins; of what is measured here, only the time of a cold reset depends on
    them.

    Args:
        python: the interpreter to use, one that is found if None.
        venvs: where its virtual environment is made, and kept for the next time.
        scratch: for all else that it writes; the caller removes it.

    Raises:
        CannotRun: when it does not run here.
    """
    interpreter = await install(find_python(python), venvs)
    package = Path((await _run((str(interpreter), "-c", _WHERE), "looking for it")).splitlines()[-1])
    environment = _clean_environment() | {
        "PYTHONWARNINGS": "ignore",
        "COMPILER_GYM_CACHE": str(scratch / "cache"),
        "COMPILER_GYM_TRANSIENT_CACHE": str(scratch / "transient"),
    }
    original = Original(interpreter, package, environment)
    if await _library_is_missing(interpreter):
        folder = scratch / "libraries"
        path = [str(folder), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(path)
        original.replaced.append(await _made(stand_ins.make_terminal_library, folder))
    if not await _has_runtime(interpreter, environment):
        environment["COMPILER_GYM_SITE_DATA"] = str(scratch / "site")
        original.replaced.append(await _made(stand_ins.make_tools, scratch / "site" / "llvm-v0"))
    return original


async def _made(make: "stand_ins.Make", folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return await asyncio.to_thread(make, folder)
    except stand_ins.CannotMake as error:
        raise CannotRun(f"it lacks {error.what}, and {error}", error.needed) from error


async def _library_is_missing(interpreter: Path) -> bool:
    try:
        await _run((str(interpreter), "-c", _LOADS), "loading libtinfo.so.5")
    except CannotRun:
        return True
    return False


async def _has_runtime(interpreter: Path, environment: dict[str, str]) -> bool:
    """Return whether its LLVM archive is there, or can be fetched by its own function."""
    site = os.environ.get("COMPILER_GYM_SITE_DATA", Path.home() / ".local" / "share" / "compiler_gym")
    if (Path(site) / "llvm-v0" / ".unpacked").exists():
        return True
    if not await asyncio.to_thread(_reachable, RUNTIME):
        return False
    with contextlib.suppress(CannotRun):
        await _run((str(interpreter), "-c", _DOWNLOAD), "fetching its LLVM archive")
        return True
    return False


def _reachable(address: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=REACH):
            return True
    except (OSError, urllib.error.URLError):
        return False
