"""Facts about what the compiler writes, by name: sizes, checksums, counts."""

import hashlib
from collections.abc import Callable
from typing import Any

from aiocg.transport.elf import NotElf, image_size, text_size
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.assembly import instruction_counts


def _size(product: list[bytes] | bytes) -> int:
    return sum(map(len, product)) if isinstance(product, list) else len(product)


def _hash(product: list[bytes] | bytes) -> str:
    whole = b"".join(product) if isinstance(product, list) else product
    return hashlib.md5(whole, usedforsecurity=False).hexdigest()


def _of_elf(measure: Callable[[bytes], int]) -> Callable[[bytes], int]:
    def measured(code: bytes) -> int:
        try:
            return measure(code)
        except NotElf as error:
            raise CompilationError(FailureCode.OBSERVATION, str(error)) from None

    return measured


FACTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "asm_size": ("asm", _size),
    "asm_hash": ("asm", _hash),
    "instruction_counts": ("asm", lambda assembly: instruction_counts(b"".join(assembly))),
    "obj_size": ("obj", _size),
    "obj_hash": ("obj", _hash),
    "obj_image_size": ("obj", _of_elf(lambda code: image_size(code).stored)),
    "obj_bss_size": ("obj", _of_elf(lambda code: image_size(code).zeroed)),
    "obj_text_size": ("obj", _of_elf(text_size)),
}
"""For each fact the product that it describes, and the function that computes it."""

CHEAP = frozenset(FACTS) - {"instruction_counts"}  # computed together, since most sessions ask for nothing else
