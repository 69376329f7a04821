"""Sizes of linked images, and their installation."""

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.locking import replacing
from aiocg.datasets.scratch import scratch_folder
from aiocg.transport.elf import Section, exported_definitions, loader_requests, sections

_EDITED = 4096  # bytes that a copy may have more than the image, as an installation changes its search path
_WASM, _WASM_CUSTOM, _WASM_CODE, _WASM_DATA = b"\0asm", 0, 10, 11
_UNWIND = (".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".ARM.exidx", ".ARM.extab")

_PADDING = ".relro_padding"  # of lld, to the end of a page: no variables
_USUAL = re.compile(
    r"\.(?:[lst]?(?:data|bss|rodata)|eh_frame|gcc_except_table|ARM|(?:pre)?init_array|fini_array|ctors|dtors|jcr|"
    r"tm_clone_table|interp|note\.gnu|note\.ABI-tag|dynamic|dynsym|dynstr|hash|gnu|rela?|relr|i?got|i?plt|sbss2|sdata2|"
    r"comment|sframe|heap|stack|isr_vector|vectors|copyreloc|dynbss|dynrelro|bss_rel_ro)(?:[._].*)?"
)
"""Names of sections that compilers, linkers and their usual scripts give."""
SPECIAL = re.compile(f"(?!(?:{_USUAL.pattern})$).*")
"""Names of other ones."""

_OF_WHOLE = re.compile(r"(?<=[a-z_0-9])([CD])1(?=[EIB])")
"""In the names of C++: constructors and destructors of whole objects, of which an abstract class has none for clang."""
_STARTING_OF_OLD = {".ctors", ".dtors"}
_COMPILERS_LIBRARY = re.compile(r"lib(?:c|m|gcc_s|stdc\+\+|dl|rt|pthread|atomic)\.so|ld-linux|ld-musl")
_OF_LINKERS = {"_init", "_fini", "_edata", "_end", "__bss_start", "edata", "end", "_etext", "etext", "__end__"}
"""Symbols that GNU's linker defines in each image."""

FLASH_AND_RAM = "flash+ram"
_COMPRESSORS = {
    "gzip": ("gzip", "-9c"),
    "xz": ("xz", "-9c"),
    "zstd": ("zstd", "-19", "-qc"),
    "brotli": ("brotli", "-q", "11", "-c"),
}
MEASURES = (FLASH_AND_RAM, *_COMPRESSORS)
"""What may count instead of the bytes that are loaded: those and the memory that variables take, since their initial
values are in flash; or the loaded bytes compressed by a program."""


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes of a linked image that are loaded or flashed, without debug information and symbols.

    Every section that the loader maps belongs to one of these, packed relocations (`.relr.dyn`) to the constants.

    Attributes:
        code: machine code.
        constants: what cannot be written: literals, tables, and what the loader reads.
        data: variables with an initial value.
        unwind: unwind tables.
        zeroed: variables that begin as zero, which take memory only.
        measured: what counts instead, see `measure`.
    """

    code: int
    constants: int
    data: int
    unwind: int
    zeroed: int = 0
    measured: int | None = None

    @property
    def bytes(self) -> int:
        """The size that counts."""
        return self.code + self.constants + self.data + self.unwind if self.measured is None else self.measured


def read_image(content: bytes) -> Image:
    """Return how large a linked image is.

    Raises:
        ValueError: when it is neither an ELF file nor WebAssembly, or only a part of one.
    """
    if content.startswith(_WASM):
        sizes = {kind: sum(len(one) for one in found) for kind, found in _wasm_sections(content).items()}
        code, data = sizes.pop(_WASM_CODE, 0), sizes.pop(_WASM_DATA, 0)
        return Image(code, sum(sizes.values()), data, 0)
    counted = dict.fromkeys(("code", "constants", "data", "unwind", "zeroed"), 0)
    for one in sections(content):
        counted[_kind(one)] += one.size if one.is_loaded and one.name != _PADDING else 0
    return Image(**counted)


def measure(content: bytes, how: str) -> Image:
    """Return how large a linked image is, by one of `MEASURES` or by a command for the shell.

    Args:
        content: the image.
        how: a name; or a command, which finds the image under the name in `$IMAGE` and prints a number.

    Raises:
        BenchmarkInitError: when a command fails or prints no number; ValueError as `read_image`.
    """
    image = read_image(content)
    if how == FLASH_AND_RAM:
        return replace(image, measured=image.bytes + image.data + image.zeroed)
    if how in _COMPRESSORS:
        return replace(image, measured=_compressed(_loaded(content), _COMPRESSORS[how]))
    return replace(image, measured=_printed(content, how)) if how else image


def special_sections(content: bytes) -> dict[str, int]:
    """Return the bytes of those sections of constants and data that compilers and linkers do not name themselves.

    The program, a loader or another tool may look for what is in them by other ways than references.
    """
    if not content.startswith(b"\x7fELF"):
        return {}
    found = [one for one in sections(content) if one.is_loaded and not one.is_code]
    return {one.name: one.size for one in found if one.name != _PADDING and not _USUAL.fullmatch(one.name)}


def loader_difference(before: bytes, after: bytes) -> str:
    """Say what of two ELF images the loader, or a program that loads them, would find different; "" for nothing.

    Compilers' own libraries may be needed by one only, as what they have is inlined or not.
    """
    if not before.startswith(b"\x7fELF"):
        return ""
    asked = [loader_requests(one) for one in (before, after)]
    others = [{one for one in some if one[0] != "library"} for some in asked]
    if different := others[0] ^ others[1]:
        return "the {} {}".format(*min(different))
    libraries = [[value for kind, value in some if kind == "library"] for some in asked]
    libraries = [[name for name in names if not _COMPILERS_LIBRARY.match(name)] for names in libraries]
    if libraries[0] != libraries[1]:
        return f"the libraries: {', '.join(libraries[1]) or 'none'} instead of {', '.join(libraries[0]) or 'none'}"
    named = [{one.name for one in sections(image)} & _STARTING_OF_OLD for image in (before, after)]
    if only := sorted(named[1] - named[0]):
        return f"the functions in {only[0]}, which GNU's linker has in an array"
    if any(one.name == ".interp" for one in sections(before)):
        return ""
    exported = exported_definitions(after)
    missing = [name for name in exported_definitions(before) - exported if name.partition("@")[0] not in _OF_LINKERS]
    names = sorted(name for name in missing if _OF_WHOLE.sub(r"\g<1>2", name) not in exported)
    return f"the symbols: it lacks {names[0]}" if names else ""


def _kind(section: Section) -> str:
    """Return which part of an image a section that is loaded belongs to."""
    if section.name in _UNWIND:
        return "unwind"
    if not section.is_stored:
        return "zeroed"
    return "code" if section.is_code else "data" if section.is_writable else "constants"


def _loaded(content: bytes) -> bytes:
    """Return what of an image is loaded and has bytes in it."""
    if content.startswith(_WASM):
        return b"".join(one for found in _wasm_sections(content).values() for one in found)
    kept = [one for one in sections(content) if one.is_loaded and one.is_stored]
    return b"".join(content[one.offset : one.offset + one.size] for one in kept)


def copies(folder: Path, content: bytes) -> Iterator[Path]:
    """Yield the files below a folder with the code of an image: copies of it, also stripped ones."""
    try:
        code = _code(content)
    except ValueError:
        return
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(OSError, ValueError):
                if path.is_symlink() or not len(code) < path.stat().st_size <= len(content) + _EDITED:
                    continue
                with open(path, "rb") as file:
                    if file.read(4) == content[:4] and _code(content[:4] + file.read()) == code:
                        yield path


def _code(content: bytes) -> bytes:
    """Return the machine code of an image.

    Raises:
        ValueError: as `read_image`.
    """
    if content.startswith(_WASM):
        return b"".join(_wasm_sections(content).get(_WASM_CODE, ()))
    return b"".join(content[one.offset : one.offset + one.size] for one in sections(content) if one.is_code)


def _compressed(content: bytes, command: Sequence[str]) -> int:
    """Return the bytes that a program compresses something to."""
    try:
        done = subprocess.run(command, input=content, stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise BenchmarkInitError(command[0], f"there is no {command[0]} on PATH, by which size is measured") from None
    if done.returncode:
        raise BenchmarkInitError(command[0], f"`{shlex.join(command)}` ended with {done.returncode}")
    return len(done.stdout)


def _printed(content: bytes, command: str) -> int:
    """Return the last number that a command prints about an image."""
    with scratch_folder() as scratch:
        path = Path(scratch, "image")
        path.write_bytes(content)
        path.chmod(0o700)
        environment = {**os.environ, "IMAGE": str(path)}
        words = ["/bin/sh", "-c", command]
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        return int(done.stdout.split()[-1])
    except (IndexError, ValueError):
        raise BenchmarkInitError(command, f"`{command}` printed no number, and ended with {done.returncode}") from None


def kind_of(content: bytes) -> bytes:
    """Return what an image is: of an ELF file its class, byte order, type and machine."""
    return content[:6] + content[16:20] if content.startswith(b"\x7fELF") else content[:4]


def _wasm_sections(content: bytes) -> dict[int, list[bytes]]:
    """Return the sections of a module of WebAssembly by their kinds, without custom ones: names and debug information.

    Raises:
        ValueError: when it is cut off.
    """
    found: dict[int, list[bytes]] = {}
    at = len(_WASM) + 4
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
        if kind != _WASM_CUSTOM:
            found.setdefault(kind, []).append(content[start:at])
    return found


def smallest(images: Mapping[str, Image]) -> str:
    """Return the name of the smallest image; of equals the one with less zeroed memory, then the first."""
    return min(images, key=lambda name: (images[name].bytes, images[name].zeroed))


def put(path: Path, content: bytes) -> None:
    """Let an image take the place of another at once; it is as executable as that, and as old, as `make` looks at that.

    A symbolic link stays one.

    Raises:
        OSError: when it cannot be written; the other is still there.
    """
    path = path.resolve()
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
