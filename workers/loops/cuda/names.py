"""Names of tensors and variables as C++ has them."""

import re

__all__ = ["Names"]

# What NVRTC knows without a header, and C++'s own words. A name that begins with two underscores cannot come up.
WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    blockDim blockIdx gridDim threadIdx warpSize dim3 fabsf sqrtf expf logf tanhf maximum minimum
    size_t ptrdiff_t clock_t NULL INFINITY NAN linux unix i386
"""
RESERVED = frozenset(WORDS.split())


class Names:
    """Gives each thing of a function a name of its own, as near to what it is called as C++ allows."""

    def __init__(self) -> None:
        self._taken = set(RESERVED)

    def take(self, wanted: str) -> str:
        """Return a name that was not returned before."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "v"
        base = base if base[0].isalpha() else f"v{base}"
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
