"""Advice for users whose program did not compile."""

import re

_MISSING = re.compile(r"fatal error: '([^'\n]+)' file not found")
_BEHIND = re.compile(  # libc++'s headers, around one of libc's
    r"/c\+\+/v1/(?:(?:(__mbstate_t)|(\w+))\.h:\d+:\d+: error: |c(\w+):\d+:\d+: note: using declaration annotated)"
)

_C_PACKAGES = "Debian and Ubuntu: libc6-dev; Fedora: glibc-devel; Alpine: musl-dev"
_CXX_PACKAGES = (
    "Debian and Ubuntu: libstdc++-12-dev (or the number of your release), or libc++-dev with -stdlib=libc++; "
    "Fedora: libstdc++-devel; Alpine: libstdc++-dev"
)

_C_HEADERS = frozenset(
    """
    aio alloca argp arpa/inet assert byteswap complex cpio crypt ctype dirent dlfcn elf endian err errno error
    execinfo fcntl features fenv float fmtmsg fnmatch ftw getopt glob gnu-versions grp iconv ifaddrs inttypes
    iso646 langinfo libgen limits link locale malloc math mcheck memory mntent monetary mqueue net/if netdb
    netinet/in netinet/tcp nl_types paths poll pthread pty pwd regex resolv sched search semaphore setjmp
    sgtty shadow signal spawn stdc-predef stdint stdio stdio_ext stdlib string strings stropts syscall
    sysexits syslog tar termio termios tgmath threads time uchar ucontext ulimit unistd utime utmp utmpx
    values wait wchar wctype wordexp
    """.split()  # noqa: SIM905 - as a list it would fill two pages
)
_C_DIRECTORIES = ("arpa/", "asm/", "asm-generic/", "bits/", "gnu/", "linux/", "net/", "netinet/", "sys/")
_CXX_HEADERS = frozenset(
    """
    algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono
    cinttypes ciso646 climits clocale cmath codecvt compare complex concepts condition_variable coroutine
    csetjmp csignal cstdalign cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar
    cwchar cwctype deque exception execution expected filesystem flat_map flat_set format forward_list fstream
    functional future generator initializer_list iomanip ios iosfwd iostream istream iterator latch limits
    list locale map mdspan memory memory_resource mutex new numbers numeric optional ostream print queue
    random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span spanstream
    sstream stack stacktrace stdexcept stdfloat stop_token streambuf string string_view strstream syncstream
    system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray
    variant vector version
    """.split()  # noqa: SIM905 - as a list it would fill two pages
)


_ON_COMMAND_LINE = "behind -- on the command line, or as `flags` in Python"
_NEWER = re.compile(
    r"""is\ a\ C(?:\+\+)?\d\w+\ extension | ISO\ C\+\+\ \d+\ standard | requires\ .*-(?:std=|fcoroutines)
    | (?:unknown\ type\ name|undeclared\ identifier)
        \ '(?:co_\w+|concept|consteval|constinit|requires|char8_t|auto|constexpr|nullptr|bool|true|false)'
    | no\ (?:template|type|member)\ named\ '\w+'\ in\ (?:namespace\ )?'std
    """,
    re.VERBOSE,
)


def flag_advice(diagnostics: str) -> str:
    """Say which flag a user's source may lack, after what clang says of it; "" if nothing hints at one."""
    header = missing_header(diagnostics)
    if header and not header_remedy(header):
        return f"if {header} is yours, give its folder, such as -Iinclude, {_ON_COMMAND_LINE}"
    if not header and _NEWER.search(diagnostics):
        return f"if it is in a newer standard, give that, such as -std=c++20 or -std=c23, {_ON_COMMAND_LINE}"
    return ""


def missing_header(diagnostics: str) -> str:
    """Return the header that clang did not find, as the program or the C++ library spells it, or "".

    libc++ goes on without libc's headers, until one of its own around them lacks something.
    """
    if match := _MISSING.search(diagnostics):
        return match[1]
    match = _BEHIND.search(diagnostics)
    return f"{match[2] or match[3] or 'wchar'}.h" if match else ""


def header_remedy(header: str) -> str:
    """Say how to install a system header; "" for other headers."""
    if header in _CXX_HEADERS or header.startswith(("bits/stdc++", "bits/c++", "ext/")):
        return _remedy("C++", _CXX_PACKAGES)
    is_standard = header.endswith(".h") and header.removesuffix(".h") in _C_HEADERS
    if is_standard or header.startswith(_C_DIRECTORIES):
        return _remedy("C", _C_PACKAGES)
    return ""


def _remedy(language: str, packages: str) -> str:
    return f"this machine lacks the headers of the {language} library: install them ({packages})"
