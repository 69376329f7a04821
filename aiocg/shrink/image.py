"""How large a linked image is, and putting it into its place."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.replacing import replacing
from aiocg.datasets.scratch import scratch_folder
from aiocg.llvm.object_file import sections

_WASM, _WASM_CODE, _WASM_DATA = b"\0asm", 10, 11
_UNWIND = (".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".ARM.exidx", ".ARM.extab")


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes of a linked image that are loaded or flashed, without debug information and symbols.

    Attributes:
        code: machine code.
        constants: what cannot be written: literals, tables, and what the loader reads.
        data: variables with an initial value. Those that are zero take no space.
        unwind: unwind tables; told, not counted.
        measured: what a command of the user's says of it, which then counts.
    """

    code: int
    constants: int
    data: int
    unwind: int
    measured: int | None = None

    @property
    def bytes(self) -> int:
        """The size that counts."""
        return self.code + self.constants + self.data if self.measured is None else self.measured


def read_image(content: bytes) -> Image:
    """Return how large a linked image is.

    Raises:
        ValueError: when it is neither an ELF file nor WebAssembly, or only a part of one.
    """
    if content.startswith(_WASM):
        return _read_wasm(content)
    sizes = dict.fromkeys(("code", "constants", "data", "unwind"), 0)
    for one in sections(content):
        if not one.is_loaded or not one.is_stored:
            continue
        if one.name in _UNWIND:
            sizes["unwind"] += one.size
        else:
            sizes["code" if one.is_code else "data" if one.is_writable else "constants"] += one.size
    return Image(**sizes)


def measure(content: bytes, command: str) -> Image:
    """Return how large a linked image is, as a command for the shell says, which finds it under the name in `$IMAGE`.

    Args:
        command: prints a number; if "", the image's own size counts.

    Raises:
        BenchmarkInitError: when the command fails or prints no number; ValueError as `read_image`.
    """
    image = read_image(content)
    if not command:
        return image
    with scratch_folder() as scratch:
        path = Path(scratch, "image")
        path.write_bytes(content)
        path.chmod(0o700)
        environment = {**os.environ, "IMAGE": str(path)}
        words = ["/bin/sh", "-c", command]
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        return replace(image, measured=int(done.stdout.split()[-1]))
    except (IndexError, ValueError):
        raise BenchmarkInitError(command, f"`{command}` printed no number, and ended with {done.returncode}") from None


def kind_of(content: bytes) -> bytes:
    """Return what an image is: of an ELF file its class, byte order, type and machine."""
    return content[:6] + content[16:20] if content.startswith(b"\x7fELF") else content[:4]


def _read_wasm(content: bytes) -> Image:
    """Return how large a module of WebAssembly is, without its custom sections: names and debug information."""
    sizes, at = dict.fromkeys(range(256), 0), len(_WASM) + 4
    while at < len(content):
        kind, start = content[at], at
        length, shift, at = 0, 0, at + 1
        while True:
            if at >= len(content):
                raise ValueError("the module of WebAssembly is cut off")
            byte, at = content[at], at + 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        at += length
        sizes[kind] += at - start
    code, data = sizes.pop(_WASM_CODE), sizes.pop(_WASM_DATA)
    return Image(code, sum(sizes.values()) - sizes[0], data, 0)


def smallest(images: Mapping[str, Image]) -> str:
    """Return the name of the smallest image; of equals the one with less unwind tables, then the first."""
    return min(images, key=lambda name: (images[name].bytes, images[name].unwind))


def put(path: Path, content: bytes) -> None:
    """Let an image take the place of another at once; it is as executable as that, and as old, as `make` looks at that.

    Raises:
        OSError: when it cannot be written; the other is still there.
    """
    status = path.stat()
    copies = [one for one in path.parent.glob("deps/*") if one.samefile(path)] if status.st_nlink > 1 else []
    with replacing(path, status.st_mode & 0o7777) as file:
        file.write(content)
        file.flush()
        os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    for copy in copies:  # cargo would put that one back
        new = copy.with_name(f".new-{copy.name}")
        os.link(path, new)
        new.replace(copy)
