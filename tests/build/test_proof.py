"""Builds whose images must do the same after clang, or GCC with other options, has compiled them again."""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from aiocg.build.commands import Start, read_record, record_build, units_of
from aiocg.build.proof import Unrepeatable, check_repeatable, readable
from aiocg.llvm.command_line import parse
from aiocg.shrink._candidate import FOUND, OWN
from aiocg.shrink.gcc import GccShrinking
from aiocg.shrink.image import put
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import understand
from aiocg.shrink.shrinking import Shrinking

pytestmark = pytest.mark.needs("libc", "gcc")

PRINTS = (
    '#include <stdio.h>\nint value(int);\nint main(int argc, char **argv) { printf("%d\\n", value(argc)); return 0; }\n'
)
PLAIN = "gcc -O2 -c main.c part.c && gcc -o app main.o part.o"
FILLER = "static int pad(int x) { for (int i = 0; i < x; i++) x ^= i * 77; return x; }\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A small build.

    Attributes:
        files: by name.
        build: for the shell.
        kept: in which parts nothing may be replaced, and why; parts of the note.
        run: prints what must be the same.
    """

    files: Mapping[str, str]
    build: str = PLAIN
    kept: str = ""
    run: str = "./app"


CASES = {
    "a function that the linker wraps": Case(
        {
            "main.c": "#include <stdio.h>\nint level(int), __real_level(int);\n"
            "int __wrap_level(int x) { return 1000 + __real_level(x); }\n"
            'int main(int argc, char **argv) { printf("%d\\n", level(argc)); return 0; }\n',
            "part.c": "int level(int x) { return x * 3; }\n",
        },
        "gcc -O2 -c main.c part.c && gcc -Wl,--wrap,level -o app main.o part.o",
        "the link wraps level",
    ),
    "a function that the linker wraps, as a file says, without its own": Case(
        {
            "main.c": "#include <stdio.h>\nint level(int);\nint __wrap_level(int x) { return x + 1000; }\n"
            'int main(int argc, char **argv) { printf("%d\\n", level(argc)); return 0; }\n',
            "part.c": "int level(int x) { return x * 3; }\n",
            "words": "--wrap=level\n",
        },
        "gcc -O2 -c main.c part.c && gcc -Wl,@words -o app main.o part.o",
        "the link wraps level",
    ),
    "a wrapped function that an object which the build did not compile defines and calls": Case(
        {
            "main.c": "#include <stdio.h>\nint level(int), within(int), value(int);\n"
            "int __wrap_level(int x) { return 1000 + x; }\n"
            'int main(int argc, char **argv) { printf("%d %d\\n", level(argc), within(argc)); return value(0); }\n',
            "part.c": "int value(int x) { return x; }\n",
            "ready.c": "int level(int x) { return x * 3; }\nint within(int x) { return level(x); }\n",
        },
        "/usr/bin/gcc -O0 -c ready.c && gcc -O2 -c main.c part.c && gcc -Wl,--wrap,level -o app main.o part.o ready.o",
        "defines and calls: level",
    ),
    "a wrapped function that a unit which stays for another reason defines and calls": Case(
        {
            "main.c": "#include <stdio.h>\nint level(int), within(int), value(int);\n"
            "int __wrap_level(int x) { return 1000 + x; }\n"
            'int main(int argc, char **argv) { printf("%d %d\\n", level(argc), within(argc)); return value(0); }\n',
            "part.c": "int value(int x) { return x; }\n",
            "stays.c": "int level(int x) { return x * 3; }\nint within(int x) { return level(x); }\n",
        },
        "gcc -O2 -c main.c part.c && gcc -O0 -ftrapv -c stays.c && gcc -Wl,--wrap,level -o app main.o part.o stays.o",
        "defines and calls: level",
    ),
    "a function that the loader calls, as the link says": Case(
        {
            "main.c": PRINTS,
            "part.c": '#include <stdio.h>\nvoid early(void) { puts("early"); fflush(stdout); }\n'
            "int value(int x) { return x; }\n",
        },
        "gcc -O2 -c main.c part.c && gcc -Wl,-init,early -o app main.o part.o",
    ),
    "a weak function that machine code defines, too": Case(
        {
            "main.c": "#include <stdio.h>\n__attribute__((weak)) int value(int x) { return 0; }\n"
            'int main(int argc, char **argv) { printf("%d\\n", value(argc)); return 0; }\n',
            "part.c": "int value(int x) { return __TIME__[7] * 0 + 77; }\n",
        },
        "gcc -O2 -c main.c && gcc -O2 -x c -c -o part.o - < part.c && gcc -o app main.o part.o",
        "standard input",
    ),
    "an archive that is written again": Case(
        {"main.c": PRINTS},
        "gcc -O2 -c main.c; for n in 1 2; do echo 'int value(int x) { return 10 * N; }' > gen.c; "
        "gcc -O2 -DN=$n -c gen.c; rm -f libgen.a; ar rcs libgen.a gen.o; gcc -o app$n main.o -L. -lgen; done",
        "another image",
        "./app1; ./app2",
    ),
    "a line of several": Case(
        {
            "main.c": PRINTS,
            "part.c": "#define HERE(a, b) (__LINE__ * 10 + (a) - (b))\nint value(int x) {\nreturn HERE(x,\n2);\n}\n",
        },
    ),
    "what an overflow does": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x + 2147483647; }\n"},
        "gcc -O2 -ftrapv -c main.c part.c && gcc -o app main.o part.o",
        "-ftrapv",
        "./app; echo $?",
    ),
    "destructors at the exit": Case(
        {"main.c": PRINTS, "part.cc": 'extern "C" int value(int x) { return x; }\n'},
        "gcc -O2 -c main.c && g++ -O2 -fno-use-cxa-atexit -c part.cc && gcc -o app main.o part.o",
        "-fno-use-cxa-atexit",
    ),
    "checks of the C library, and what compilers differ in": Case(
        {
            "main.c": PRINTS,
            "part.c": "#define _FORTIFY_SOURCE 2\n#include <stdio.h>\nint version = __GNUC__;\n"
            'int value(int x) { char b[9]; snprintf(b, sizeof b, "%d,%d", x, version); return b[0] * b[2]; }\n',
        },
        "gcc -O2 -c main.c part.c && gcc -shared -fPIC -O2 -o libx.so part.c && gcc -o app main.o part.o",
        run="./app; nm -uD libx.so app | grep -c -e _chk -e __builtin",
    ),
    "checks of the C library that clang leaves out": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <unistd.h>\nint value(int x) { char b[8]; return x > 3 ? (int)read(0, b, x) : x; }\n",
        },
        "gcc -O2 -D_FORTIFY_SOURCE=2 -c main.c part.c && gcc -o app main.o part.o",
        "clang would call read without the checks of __read_chk",
        "./app; ./app 1 2 3 4 5 6 7 8 9 0 < /dev/null; nm -uD app | grep -c __read_chk",
    ),
    "checks of how a file is opened that clang leaves out": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <fcntl.h>\n#include <unistd.h>\n"
            'int value(int x) { int f = open("/dev/null", x); close(f); return f > 0; }\n',
        },
        "gcc -O2 -D_FORTIFY_SOURCE=2 -c main.c part.c && gcc -o app main.o part.o",
        "clang would call open without the checks of __open_2",
        "./app; nm -uD app | grep -c __open_2",
    ),
    "arguments of an inlined function": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <stdio.h>\nstatic inline __attribute__((always_inline)) int put(const char *f, ...) "
            '{ return printf(f, __builtin_va_arg_pack()); }\nint value(int x) { return put("%d %d\\n", x, 7); }\n',
        },
        kept="clang does not have __builtin_va_arg_pack",
    ),
    "a condition that counts": Case(
        {
            "main.c": PRINTS,
            "part.c": "#if defined __COUNTER__ && __COUNTER__ != __COUNTER__\nint value(int x) { return x + 2; }\n"
            "#endif\nint count = __COUNTER__ + __GNUC__;\n",
        }
    ),
    "a thin archive": Case(
        {"main.c": PRINTS, "sub/lib.p/part.c": "int value(int x) { return x * 3; }\n"},
        "gcc -O2 -c main.c && gcc -O2 -c -o sub/lib.p/part.c.o sub/lib.p/part.c && "
        "ar csrDT sub/lib.a sub/lib.p/part.c.o && gcc -o app main.o sub/lib.a",
    ),
    "a thin archive with a name that is nearly too long": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x * 3; }\n"},
        "gcc -O2 -c main.c && gcc -O2 -c -o test-runner.c.o part.c && ar csrDT lib.a test-runner.c.o && "
        "gcc -o app main.o lib.a",
    ),
    "a protected stack": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <string.h>\nint value(int x) { char b[40]; memset(b, x, 40); return strnlen(b, x); }\n",
        },
        "gcc -O2 -fstack-protector-strong -c main.c part.c && gcc -o app main.o part.o",
        run="./app; nm -uD app | grep -c __stack_chk_fail",
    ),
    "an image that is renamed": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x * 3; }\n"},
        "gcc -O2 -c main.c part.c && gcc -o app.new main.o part.o && mv app.new app",
    ),
    "a library with an abstract class": Case(
        {
            "main.c": PRINTS,
            "part.cc": "struct Shape { Shape(); virtual ~Shape(); virtual int area() = 0; int n; };\n"
            "struct Square : Shape { int area(); };\nShape::Shape() : n(3) {}\nShape::~Shape() {}\n"
            'int Square::area() { return n * n; }\nextern "C" int value(int x) { Square s; return s.area() + x; }\n',
        },
        "gcc -O2 -c main.c && g++ -O2 -fPIC -c part.cc && g++ -shared -o libx.so part.o && "
        "gcc -o app main.o -L. -lx -Wl,-rpath,.",
    ),
    "a pack of the standard library, and what compilers differ in": Case(
        {
            "main.c": PRINTS,
            "part.cc": "#include <tuple>\n#include <utility>\nstatic int version = __GNUC__;\n"
            'extern "C" int value(int x) { auto t = std::make_tuple(x, 2, 3); '
            "return std::apply([](auto... n) { return (n + ...); }, t) + version; }\n",
        },
        "gcc -O2 -c main.c && g++ -O2 -std=c++17 -c part.cc && g++ -o app main.o part.o",
    ),
    "a compiler that starts the next of its name": Case(
        {
            "main.c": PRINTS,
            "part.c": "int value(int x) { return x * 3; }\n",
            "bin/gcc": "#!/bin/sh\nIFS=:\nfor one in $PATH; do\n"
            'test "$one/gcc" -ef "$0" || ! test -x "$one/gcc" || exec "$one/gcc" "$@"\ndone\n',
        }
    ),
    "mathematics of a pragma": Case(
        {
            "main.c": PRINTS,
            "part.c": '#pragma GCC optimize("Ofast")\nint value(int x) { double d = x; return d - d == 0 ? x : 7; }\n',
        },
        kept='optimize("Ofast")',
    ),
    "what one compiler has another value for": Case(
        {
            "main.c": PRINTS,
            "part.c": "#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n"
            "int value(int x) { return sizeof TEXT(__BIGGEST_ALIGNMENT__) + sizeof TEXT(__GCC_IEC_559); }\n",
        },
    ),
    "an attribute of the layout": Case(
        {
            "main.c": PRINTS,
            "part.c": 'struct __attribute__((scalar_storage_order("big-endian"))) head { int port; };\n'
            "int value(int x) { struct head h = {x}; return *(unsigned char *)&h; }\n",
        },
        kept="scalar_storage_order",
    ),
    "a pragma of the optimiser": Case(
        {
            "main.c": PRINTS,
            "part.c": '#pragma GCC optimize("no-strict-aliasing")\n'
            "__attribute__((noinline)) static int pun(int *i, float *f) { *i = 1; *f = 0; return *i; }\n"
            "int value(int x) { return pun(&x, (float *)&x); }\n",
        },
        kept="no-strict-aliasing",
    ),
    "an option of the language": Case(
        {
            "main.c": PRINTS,
            "part.c": "struct s { int f : 3; };\nint value(int x) { struct s s; s.f = 6 + x; return s.f; }\n",
        },
        "gcc -O2 -funsigned-bitfields -c main.c part.c && gcc -o app main.o part.o",
        "-funsigned-bitfields",
    ),
    "an option that only changes the speed": Case(
        {"main.c": PRINTS, "part.c": f"{FILLER}int value(int x) {{ return pad(x); }}\n"},
        "gcc -O2 -fno-ivopts -fconserve-stack --param max-inline-insns-auto=3 -c main.c part.c && "
        "gcc -o app main.o part.o",
    ),
    "an attribute that only changes the speed": Case(
        {
            "main.c": PRINTS,
            "part.c": '__attribute__((noclone, optimize("O3"))) int value(int x) { return x + 4; }\n'
            "void fill(int *p, int n) {\n#pragma GCC ivdep\nfor (int i = 0; i < n; i++) p[i] = n; }\n",
        },
    ),
    "a warning of macros that are not used": Case(
        {"main.c": PRINTS, "part.c": "#define UNUSED 1\nint value(int x) { return x + 4; }\n"},
        "gcc -O2 -Wunused-macros -c main.c part.c && gcc -o app main.o part.o",
    ),
    "a source that is written again": Case(
        {"main.c": PRINTS},
        "echo 'int value(int x) { return x + 1; }' > part.c && gcc -O2 -c main.c part.c && gcc -o app main.o part.o && "
        "echo 'int value(int x) { return x + 2; }' > part.c",
        "another object",
    ),
    "a header that is removed": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <one.h>\nint value(int x) { return x + ONE; }\n",
            "late/one.h": "#define ONE 1\n",
        },
        "mkdir first && echo '#define ONE 2' > first/one.h && gcc -O2 -Ifirst -Ilate -c main.c part.c && "
        "rm first/one.h && gcc -o app main.o part.o",
        "another object",
    ),
    "standard input": Case(
        {"main.c": PRINTS, "half.c": "int value(int x) { return x + 77; }\n"},
        "gcc -O2 -x c -c -o part.o - < half.c && gcc -O2 -c main.c && gcc -o app main.o part.o",
        "standard input",
    ),
    "folders of the environment": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <one.h>\nint value(int x) { return x + ONE; }\n",
            "late/one.h": "#define ONE 1\n",
            "first/one.h": "#define ONE 2\n",
        },
        "export CPATH=first; gcc -O2 -isystem late -c main.c part.c && gcc -o app main.o part.o",
    ),
    "the time": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return __TIME__[7] + x; }\n"},
        kept="another object",
    ),
    "what a compiler says of itself": Case(
        {
            "main.c": PRINTS,
            "part.c": "int value(int x) {\n#ifdef __clang__\nreturn 1;\n#else\nreturn __GNUC__;\n#endif\n}\n",
        },
    ),
    "a text for GCC with types of its own in a system's header": Case(
        {
            "main.c": PRINTS,
            "part.c": "#define _GNU_SOURCE\n#include <math.h>\n#include <stdlib.h>\n#include <complex.h>\n"
            'int value(int x) {\n#ifdef __clang__\nreturn 1;\n#else\nreturn fabs(strtod("2", 0)) + x;\n#endif\n}\n',
        },
    ),
    "an attribute of the layout in a text for GCC": Case(
        {
            "main.c": PRINTS,
            "part.c": "#ifndef __clang__\n#define BIG __attribute__((scalar_storage_order("
            '"big-endian")))\n#endif\nstruct BIG head { int port; };\n'
            "int value(int x) { struct head h = {x}; return *(unsigned char *)&h; }\n",
        },
        kept="clang does not honour the attribute scalar_storage_order, line 4",
    ),
    "a type that is an argument otherwise": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <stdio.h>\nint value(int x) {\n#ifdef __clang__\nreturn 1;\n#else\n"
            'return printf("%d\\n", x, (_Float32)1);\n#endif\n}\n',
        },
        kept="unknown type name|undeclared identifier",
    ),
    "no optimisation": Case(
        {
            "main.c": PRINTS,
            "part.c": "int value(int x) {\n#ifdef __OPTIMIZE__\nreturn 1;\n#else\nreturn 2;\n#endif\n}\n",
        },
        "gcc -c main.c part.c && gcc -o app main.o part.o",
    ),
    "a table in a section": Case(
        {
            "t.h": 'typedef int (*task)(void);\n#define PUT __attribute__((used, section(".tasks")))\n',
            "main.c": '#include "t.h"\n#include <stdio.h>\nextern const task first[], last[];\n'
            'int main(void) { for (const task *t = first; t < last; t++) printf("%d\\n", (*t)()); return 0; }\n',
            "begin.c": '#include "t.h"\nPUT const task first[0] = {};\n',
            "a.c": '#include "t.h"\nstatic int one(void) { return 1; }\nPUT static const task t = one;\n',
            "b.c": '#include "t.h"\nstatic int two(void) { return 2; }\nPUT static const task t = two;\n',
            "end.c": '#include "t.h"\nPUT const task last[0] = {};\n',
        },
        "gcc -O2 -c main.c begin.c a.c b.c end.c && gcc -o app main.o begin.o a.o b.o end.o",
        "section .tasks may matter",
    ),
    "a table in a section of one object": Case(
        {
            "main.c": "#include <stdio.h>\nextern const int __start_tab[], __stop_tab[];\n"
            "int main(void) { for (const int *p = __start_tab; p < __stop_tab;)\n"
            'printf("%d\\n", *p++); return 0; }\n',
            "part.c": '#define PUT __attribute__((used, section("tab")))\n'
            "PUT static const int one = 1;\nPUT static const int two = 2;\n",
        },
        kept="section tab",
    ),
    "a table that a script of the linker puts beside constants": Case(
        {
            "main.c": "#include <stdio.h>\nextern const int first[], last[];\n"
            'int main(void) { for (const int *p = first; p < last;) printf("%d\\n", *p++); return 0; }\n',
            "part.c": '#define PUT __attribute__((section(".tab")))\nPUT const int one = 1;\nPUT const int two = 2;\n',
        },
        "ld --verbose | sed -e '1,/^=====/d' -e '/^=====/d' "
        "-e 's/^  .rodata  *: {/& first = .; *(.tab) last = .;/' > app.ld && "
        "gcc -O2 -c main.c part.c && gcc -T app.ld -o app main.o part.o",
        "section .tab",
    ),
    "constructors in an order": Case(
        {
            "main.c": "#include <stdio.h>\nint n = 0;\n"
            "__attribute__((constructor(200))) static void first(void) { n = n * 10 + 1; }\n"
            "__attribute__((constructor(150))) static void second(void) { n = n * 10 + 2; }\n"
            'int main(void) { printf("%d\\n", n); return 0; }\n',
            "part.c": "extern int n;\n__attribute__((constructor(175))) static void third(void) { n = n * 10 + 3; }\n",
        },
        kept="constructors of several units have an order",
    ),
    "a constructor before that of an object which stays": Case(
        {
            "main.c": "#include <stdio.h>\nint n = 0;\n"
            "__attribute__((constructor)) static void first(void) { n = n * 10 + 1; }\n"
            'int main(void) { printf("%d\\n", n); return 0; }\n',
            "part.c": "extern int n;\n__attribute__((constructor(175))) static void third(void) { n = 3; }\n",
            "other.c": "int other(int x) { return x; }\n",
        },
        "gcc -O2 -c main.c other.c && gcc -O2 -ftrapv -c part.c && gcc -o app main.o part.o other.o",
        "others that stay have functions like those in its .init_array",
    ),
    "what others read from the file": Case(
        {
            "main.c": '#include <stdio.h>\n__attribute__((used, section(".fw"))) const char fw[] = "FW 3.1";\n'
            '__attribute__((used)) static const char what[] = "@(#)demo 4.2";\n'
            'const char shown[] __attribute__((section(".shown"))) = "SHOWN 7";\n'
            'int main(void) { puts("ok"); return 0; }\n',
        },
        "gcc -O2 -c main.c && gcc -o app main.o",
        run="./app; grep -ac 'FW 3.1' app; grep -ac 'demo 4.2' app; grep -ac 'SHOWN 7' app",
    ),
    "exported functions that a program replaces": Case(
        {
            "lib.c": f"{FILLER}int rate(void) {{ return 5; }}\n"
            "int price(int n) { int s = 0; for (int i = 0; i < n; i++) s += rate() * pad(i); return s; }\n",
            "main.c": "#include <stdio.h>\nint price(int);\nint rate(void) { return 100; }\n"
            'int main(int argc, char **argv) { printf("%d\\n", price(argc + 4)); return 0; }\n',
        },
        "gcc -O2 -fPIC -c lib.c && gcc -shared -o libprice.so lib.o && gcc -O2 -c main.c && "
        "gcc -o app main.o -L. -lprice",
        run="LD_LIBRARY_PATH=. ./app",
    ),
    "a wrapper that adds options": Case(
        {
            "main.c": PRINTS,
            "part.c": "struct s { int f : 3; };\nint value(int x) { struct s s; s.f = 6 + x; return s.f; }\n",
            "bin/gcc": '#!/bin/sh\nexec /usr/bin/gcc -funsigned-bitfields "$@"\n',
        },
        "gcc -O2 -c main.c part.c && gcc -o app main.o part.o",
        "-funsigned-bitfields",
    ),
}

PUN = (
    "__attribute__((noinline)) static int pun(int *i, float *f) { *i = 1; *f = 0; return *i; }\n"
    "int value(int x) { return pun(&x, (float *)&x); }\n"
)
ORDERED = (
    'struct __attribute__((scalar_storage_order("big-endian"))) head { int port; };\n'
    "static inline int first(int x) { struct head h = {x}; return *(unsigned char *)&h; }\n"
)
NAMED = "#ifdef __clang__\n#define NAME 1\n#else\n#define NAME 2\n#endif\n"
WITH_HEADER = {"main.c": PRINTS, "part.c": '#include "own.h"\nint value(int x) { return first(x); }\n'}
WITH_NAME = {"main.c": PRINTS, "part.c": '#include "own.h"\nint value(int x) { return x + NAME; }\n'}
SPECS = (
    "v=$(gcc -dumpversion); m=$(gcc -dumpmachine); mkdir -p specs/$m/$v && "
    "ln -s $(dirname $(gcc -print-libgcc-file-name))/* specs/$m/$v/ && "
    "printf '*cc1:\\n+ %s\\n\\n' OPTION > specs/$m/$v/specs && "
    f"GCC_EXEC_PREFIX=$PWD/specs/ && export GCC_EXEC_PREFIX && {PLAIN}"
)
FUSED = (
    "__attribute__((noinline)) static double fused(double a, double b, double c) { return a * b + c; }\n"
    "int value(int x) { volatile double a = x + 0.1, b = 0.7, p = a * b; return fused(a, b, -p) == 0; }\n"
)
FUSING = "$(test $(uname -m) != x86_64 || echo -mfma)"
LIBRARY = "gcc -O2 -fPIC -shared -o libx.so lib.c"

CASES |= {
    f"pointers of other types with {level}": Case(
        {"main.c": PRINTS, "part.c": PUN}, f"gcc {level} -c main.c part.c && gcc -o app main.o part.o"
    )
    for level in ("-O0", "-O1", "-Og")
}
CASES |= {
    "pointers of other types with an attribute's level": Case(
        {"main.c": PRINTS, "part.c": f'__attribute__((optimize("O1"))) {PUN}'}, kept="attribute optimize"
    ),
    "denormal numbers": Case(
        {
            "main.c": "#include <stdio.h>\nint main(int argc, char **argv) {\n"
            'volatile double d = 1e-310; printf("%g\\n", d * argc); return 0; }\n'
        },
        "gcc -Ofast -c main.c && gcc -Ofast -o app main.o",
    ),
    "denormal numbers in a program with a library": Case(
        {
            "main.c": "#include <stdio.h>\nint half(int);\nint main(int argc, char **argv) {\n"
            'volatile double d = 1e-310; printf("%g\\n", d * half(2 * argc)); return 0; }\n',
            "lib.c": f"{FILLER}int half(int x) {{ return x / 2; }}\n",
        },
        "gcc -O2 -c main.c && gcc -Ofast -fPIC -shared -o libx.so lib.c && "
        "gcc -o app main.o -L. -lx -Wl,-rpath,'$ORIGIN'",
    ),
    "a loop that does not end": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { while (x != 5) ; return x; }\n"},
        "gcc -O2 -fno-inline -c main.c part.c && gcc -o app main.o part.o",
        run="timeout 2 ./app; echo $?",
    ),
    "a header that the build calls the system's": Case(
        {**WITH_HEADER, "own/own.h": ORDERED},
        "gcc -O2 -isystem own -c main.c part.c && gcc -o app main.o part.o",
        "scalar_storage_order",
    ),
    "a header that the environment calls the system's": Case(
        {**WITH_NAME, "own/own.h": NAMED},
        "C_INCLUDE_PATH=own; export C_INCLUDE_PATH; gcc -O2 -c main.c part.c && gcc -o app main.o part.o",
    ),
    "a header that calls itself the system's": Case(
        {**WITH_HEADER, "own.h": f"#pragma GCC system_header\n{ORDERED}"}, kept="scalar_storage_order"
    ),
    "a header that calls itself the system's, and asks for the compiler": Case(
        {**WITH_NAME, "own.h": f"#pragma GCC system_header\n{NAMED}"}
    ),
    "a precompiled header": Case(
        {**WITH_NAME, "own.h": "#define NAME 1\n"},
        f"gcc -O2 own.h && echo '#define NAME 2' > own.h && {PLAIN}",
        "precompiled",
    ),
    "characters without a sign, as the compiler is configured": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { char c = -x; return c; }\n"},
        SPECS.replace("OPTION", "-funsigned-char"),
        "__CHAR_UNSIGNED__",
    ),
    "protection of the stack, as the compiler is configured": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x; }\n"},
        SPECS.replace("OPTION", "-fstack-protector-all"),
        "__SSP_ALL__",
        "nm -D app | grep -c stack_chk",
    ),
    "lines that call themselves a system header's": Case(
        {"main.c": PRINTS, "part.c": f'# 9 "none.h" 1 3 4\n{NAMED}int value(int x) {{ return x + NAME; }}\n'}
    ),
    "the name of a function": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return sizeof(__PRETTY_FUNCTION__) + x; }\n"}
    ),
    "the name of a function, beside what compilers differ in": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return sizeof(__PRETTY_FUNCTION__) + __GNUC__; }\n"}
    ),
    "a copy of a variable that its library does not see": Case(
        {
            "main.c": "#include <stdio.h>\nint get(void);\nextern int shared;\n"
            'int main(void) { shared++; printf("%d %d\\n", get(), shared); return 0; }\n',
            "lib.c": "int shared = 5;\nint get(void) { return shared; }\n",
        },
        "gcc -O2 -fPIC -shared -Wl,-Bsymbolic -o libx.so lib.c && gcc -O2 -c main.c && "
        "gcc -o app main.o -L. -lx -Wl,-rpath,.",
        "libx.so uses shared of its own",
    ),
    "a copy of a variable that a list keeps its library from seeing": Case(
        {
            "main.c": "#include <stdio.h>\nint get(void);\nextern int shared;\n"
            'int main(void) { shared++; printf("%d %d\\n", get(), shared); return 0; }\n',
            "lib.c": "int shared = 5;\nint get(void) { return shared; }\n",
            "list": "{ get; };\n",
        },
        "gcc -O2 -fPIC -shared -Wl,--dynamic-list=list -o libx.so lib.c && gcc -O2 -c main.c && "
        "gcc -o app main.o -L. -lx -Wl,-rpath,.",
        "libx.so uses shared of its own",
    ),
    "folders of libraries in the environment": Case(
        {
            "main.c": PRINTS,
            "part.c": "int deep(int);\nint value(int x) { return deep(x); }\n",
            "lib.c": "int deep(int x) { return x * 5; }\n",
        },
        f"{LIBRARY} && gcc -O2 -c main.c part.c && LD_RUN_PATH=$PWD gcc -o app main.o part.o -L. -lx",
        "the loader would find something else: the run path",
    ),
    "flags for the loader": Case(
        {
            "main.c": PRINTS,
            "part.c": "int value(int x) { return x; }\n",
            "lib.c": f"{FILLER}int f(int x) {{ return x; }}\n",
        },
        f"gcc -O2 -fPIC -c lib.c && gcc -shared -Wl,-z,nodump -o libx.so lib.o && {PLAIN}",
        "the loader would find something else: the other flags 0x1000",
        "readelf -d libx.so | grep -o NODUMP",
    ),
    "a library with a destructor like its base's": Case(
        {
            "main.c": PRINTS,
            "part.c": "int build(int);\nint value(int x) { return build(x); }\n",
            "lib.cc": "struct A { virtual ~A(); int *p; };\nA::~A() { *p += 1; }\nstruct B : A { ~B(); };\nB::~B() {}\n"
            'extern "C" int build(int x) { { B b; b.p = &x; } return x; }\n',
        },
        "g++ -O2 -fPIC -c lib.cc && g++ -shared -o libx.so lib.o && gcc -O2 -c main.c part.c && "
        "gcc -o app main.o part.o -L. -lx -Wl,-rpath,.",
    ),
    "a library of a whole archive": Case(
        {
            "main.c": PRINTS,
            "part.c": "int twice(int);\nint value(int x) { return twice(x); }\n",
            "one.c": "int twice(int x) { return 2 * x; }\n",
            "two.c": "int unused(int x) { return 3 * x; }\n",
        },
        "gcc -O2 -fPIC -c one.c two.c && ar rcs libconvenience_of_long_name.a one.o two.o && gcc -shared -o libx.so "
        "-Wl,--whole-archive libconvenience_of_long_name.a -Wl,--no-whole-archive && "
        "gcc -O2 -c main.c part.c && gcc -o app main.o part.o -L. -lx -Wl,-rpath,.",
    ),
    "a library with versions and no name": Case(
        {
            "main.c": PRINTS,
            "part.c": "int f(int);\nint value(int x) { return f(x); }\n",
            "lib.c": f"{FILLER}int f(int x) {{ return x * 5; }}\n",
            "map": "V1 { global: f; local: *; };\n",
        },
        "gcc -O2 -fPIC -shared -Wl,--version-script=map -o libx.so lib.c && gcc -O2 -c main.c part.c && "
        "gcc -o app main.o part.o -L. -lx -Wl,-rpath,'$ORIGIN'",
        "give it a -soname",
        "./app; readelf -VW libx.so | grep -c 'BASE.*libx.so'",
    ),
    "a product and a sum that the machine rounds once": Case(
        {"main.c": PRINTS, "part.c": FUSED},
        f"gcc -O2 {FUSING} -c main.c part.c && gcc -o app main.o part.o",
        "rounds once",
    ),
    "a product and a sum that are rounded each, in C as the standard has it": Case(
        {"main.c": PRINTS, "part.c": FUSED},
        f"gcc -O2 -std=c11 {FUSING} -c main.c part.c && gcc -o app main.o part.o",
    ),
    "a product and a sum that are rounded each, without optimisation": Case(
        {"main.c": PRINTS, "part.c": FUSED}, f"gcc {FUSING} -c main.c part.c && gcc -o app main.o part.o"
    ),
    "a product and a sum that are rounded each, though an option allows more": Case(
        {"main.c": PRINTS, "part.c": FUSED},
        f"gcc -O1 -ffp-contract=fast {FUSING} -c main.c part.c && gcc -o app main.o part.o",
        "rounds once",
    ),
    "the first of several definitions": Case(
        {
            "main.c": PRINTS,
            "part.c": "int twice(int x) { return 2 * x; }\nint value(int x) { return twice(x); }\n",
            "other.c": "int twice(int x) { return 3 * x; }\nint more(int x) { return x; }\n",
        },
        "gcc -O2 -c main.c part.c other.c && gcc -Wl,-z,muldefs -o app main.o other.o part.o",
        "the link may take another twice",
    ),
    "a definition that the link replaces": Case(
        {
            "main.c": PRINTS,
            "part.c": "int thrice(int x) { return 3 * x; }\nint twice(int x) { return 2 * x; }\n"
            "int value(int x) { return twice(x); }\n",
        },
        "gcc -c main.c part.c && gcc -Wl,--defsym=twice=thrice -o app main.o part.o",
        "the link may take another twice",
    ),
    "a table of symbols, made from a first link": Case(
        {
            "main.c": PRINTS,
            "part.c": f"{FILLER}extern const unsigned long table;\n"
            "int value(int x) { return pad(x) * (table == (unsigned long)&value); }\n",
            "unused.c": "int unused(int x) { return x * 7; }\n",
        },
        "echo 'const unsigned long table = 0;' > table.c && gcc -O2 -c unused.c main.c part.c table.c && "
        "gcc -no-pie -o first unused.o main.o part.o table.o && "
        "echo \"const unsigned long table = 0x$(nm first | sed -n 's/ T value$//p');\" > table.c && "
        "gcc -O2 -c table.c && gcc -no-pie -o app unused.o main.o part.o table.o",
        "the build has read the symbols of first",
    ),
    "powers of two": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <math.h>\n#include <string.h>\nint value(int x) { unsigned long bits, sum = 0;\n"
            "for (int i = 0; i < 9999; i++) { double d = pow(2.0, (x + i) / 1000.0); memcpy(&bits, &d, sizeof d);\n"
            "sum = sum * 31 + bits; } return sum % 9973; }\n",
        },
        f"{PLAIN} -lm",
    ),
    "an exception that goes through C": Case(
        {
            "main.cc": '#include <cstdio>\nextern "C" void fail(int x) { throw x; }\nextern "C" int value(int);\n'
            'int main() { try { return value(1); } catch (int x) { std::printf("%d\\n", x); } return 0; }\n',
            "part.c": "void fail(int);\nint value(int x) { fail(x + 3); return x; }\n",
        },
        "g++ -O2 -c main.cc && gcc -O2 -c part.c && g++ -o app main.o part.o",
    ),
    "types of the same name that different units have for themselves": Case(
        {
            "main.cc": "#include <cstdio>\nvoid fail(int);\nnamespace { struct Error { virtual ~Error() {} }; }\n"
            'int main(int argc, char **) { try { fail(argc); } catch (Error &) { std::puts("ours"); }\n'
            'catch (...) { std::puts("another"); } return 0; }\n',
            "part.cc": "namespace { struct Error { virtual ~Error() {} }; }\n"
            "void fail(int x) { if (x) throw Error(); }\n",
        },
        "g++ -O2 -c main.cc part.cc && g++ -o app main.o part.o",
    ),
    "a class without a definition": Case(
        {
            "main.cc": "#include <cstdio>\n#include <typeinfo>\nstruct Zed;\nconst std::type_info &known();\n"
            'int main() { std::printf("%d\\n", known() == typeid(Zed *)); return 0; }\n',
            "part.cc": "#include <typeinfo>\nstruct Zed;\nconst std::type_info &known() { return typeid(Zed *); }\n",
        },
        "g++ -O2 -c main.cc part.cc && g++ -o app main.o part.o",
    ),
    "functions between assembly": Case(
        {
            "main.c": PRINTS,
            "part.c": '__asm__(".text\\nfirst:");\nint one(int x) { return x * 7; }\n__asm__(".text\\nlast:");\n'
            "extern const char first[], last[];\n"
            "int value(int x) { return first <= (char *)one && (char *)one < last; }\n",
        },
        "gcc -O2 -fno-toplevel-reorder -fno-reorder-functions -c main.c part.c && gcc -o app main.o part.o",
        "clang does not honour -fno-toplevel-reorder",
    ),
    "functions to be called first in a section of old": Case(
        {
            "main.c": PRINTS,
            "part.c": "static int n;\nstatic void add(void) { n += 3; }\n"
            '__attribute__((used, section(".ctors"))) static void (*const first)(void) = add;\n'
            "int value(int x) { return x + n; }\n",
        },
        kept="the functions in .ctors, which GNU's linker has in an array",
    ),
    "options that an image records": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x; }\n"},
        "gcc -O2 -frecord-gcc-switches -c main.c part.c && gcc -o app main.o part.o",
        run="./app; grep -ac disable-llvm-passes app",
    ),
    "files that are written beside an object": Case(
        {"main.c": PRINTS, "part.c": f"{FILLER}int value(int x) {{ return pad(x); }}\n"},
        "gcc -O2 -Wa,-adln=part.lst -aux-info part.x -fopt-info-all=part.opt -c part.c && gcc -O2 -c main.c && "
        "gcc -o app main.o part.o && touch made",
        run="./app; find part.lst part.x part.opt -newer made; sha256sum part.lst part.x part.opt",
    ),
    "rules that the environment asks for": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x + __GNUC__; }\n"},
        f"DEPENDENCIES_OUTPUT=rules; export DEPENDENCIES_OUTPUT; {PLAIN}",
        run="./app; cat rules",
    ),
    "an exception through C++ that has none": Case(
        {
            "main.cc": "#include <stdio.h>\nvoid pass(void (*)());\nstatic void fail() { throw 5; }\n"
            'int main() { try { pass(fail); } catch (int x) { printf("caught %d\\n", x); } }\n',
            "part.cc": "void pass(void (*f)()) { f(); f(); }\n",
        },
        "g++ -O2 -c main.cc && g++ -O2 -fno-exceptions -c part.cc && g++ -o app main.o part.o",
    ),
    "an exception through C that says that it has none": Case(
        {
            "main.cc": '#include <stdio.h>\nextern "C" void pass(void (*)());\nstatic void fail() { throw 5; }\n'
            'int main() { try { pass(fail); } catch (int x) { printf("caught %d\\n", x); } }\n',
            "part.c": "void pass(void (*f)(void)) { f(); f(); }\n",
        },
        "g++ -O2 -c main.cc && gcc -O2 -fno-exceptions -c part.c && g++ -o app main.o part.o",
    ),
    "a bit-field that is wider than int": Case(
        {
            "main.c": PRINTS,
            "part.c": "#define WIDTH 40\nstruct pair { unsigned long long low : WIDTH, high : 24; };\n"
            "int value(int x) { struct pair one = {0xffffffffff, x}; return one.low + 1 == 0; }\n",
        },
        kept="compute with the bit-field low in other widths",
    ),
    "a product and a sum that a pragma lets be one": Case(
        {
            "main.c": PRINTS,
            "part.c": "#pragma STDC FP_CONTRACT ON\n"
            "__attribute__((noinline)) static double sum(double a, double b, double c) { return a * b + c; }\n"
            "int value(int x) { volatile double a = x + 0.1, b = 0.7, c = a * b; return sum(a, b, -c) == 0; }\n",
        },
        "gcc -O2 -mfma -ffp-contract=off -c part.c && gcc -O2 -c main.c && gcc -o app main.o part.o",
        "clang honours a pragma STDC FP_CONTRACT",
    ),
    "assembly that names what another unit has for itself": Case(
        {
            "main.c": "#include <stdio.h>\nint other(int);\n"
            "__attribute__((noinline)) static int helper(int x) { return x * 1007; }\n"
            'int main(int argc, char **argv) { printf("%d %d\\n", helper(argc), other(argc)); return 0; }\n',
            "part.c": "int other(int x) {\n  int y;\n"
            '  __asm__ volatile("call helper" : "=a"(y) : "D"(x) : "memory");\n  return y;\n}\n',
            "more.S": '.globl helper\nhelper: leal 1(%rdi),%eax\n ret\n.section .note.GNU-stack,"",@progbits\n',
        },
        "gcc -O2 -c main.c part.c more.S && gcc -o app main.o part.o more.o",
        "its assembly names helper, which another unit has for itself",
    ),
    "variables that are filled with a pattern": Case(
        {
            "main.c": PRINTS,
            "part.c": "int value(int x) { int a[4]; if (x > 99) a[1] = x; return ((volatile int *)a)[1]; }\n",
        },
        "gcc -O2 -ftrivial-auto-var-init=pattern -c part.c && gcc -O2 -c main.c && gcc -o app main.o part.o",
        "clang does not do with -ftrivial-auto-var-init=pattern what GCC does",
    ),
    "a header that was precompiled in another folder": Case(
        {
            "main.c": PRINTS,
            "part.c": '#include "one.h"\nint value(int x) { return x + ONE; }\n',
            "headers/one.h": "#define ONE 1\n",
        },
        "mkdir -p made && gcc -O2 headers/one.h -o made/one.h.gch && echo '#define ONE 2' >headers/one.h && "
        "gcc -O2 -Imade -Iheaders -c part.c && gcc -O2 -c main.c && gcc -o app main.o part.o",
        "made/one.h is there as a precompiled header, too",
    ),
    "lines of a call that compilers count in other ways": Case(
        {
            "main.c": PRINTS,
            "part.c": "#define CALL(a, b) f(a, b)\nstatic int f(int a, int line) { return a + line; }\n"
            "int value(int x) {\n  return CALL(x,\n\n    __builtin_LINE()\n  );\n}\n",
        },
        kept="compilers have different values for __builtin_LINE",
    ),
    "where the code ends": Case(
        {
            "main.c": PRINTS,
            "part.c": 'extern char etext;\nint value(int x) { return "constant" > &etext; }\n',
        },
        kept="part.c asks for etext, and lld has constants before the code",
    ),
    "a structure that is atomic": Case(
        {
            "main.c": PRINTS,
            "part.c": "struct three { char bytes[3]; };\nint value(int x) { return sizeof(_Atomic struct three); }\n",
        },
        kept="an atomic struct may have another size",
    ),
    "quotients of complex constants": Case(
        {
            "main.c": PRINTS,
            "part.c": "static const double _Complex one = (1.1 + 2.3i) / (3.7 - 0.9i);\n"
            "int value(int x) { double y = __real__ one * 1e17; return (long)y % 1000; }\n",
        },
        kept="compilers round constants of _Complex types in other ways",
    ),
    "functions of constants that GCC computes": Case(
        {
            "main.c": PRINTS,
            "part.c": "#include <math.h>\nint value(int x) { double y = y1(5.51) * 1e18; return (long)y % 10000; }\n",
        },
        "gcc -O2 -D_GNU_SOURCE -c main.c part.c && gcc -o app main.o part.o -lm",
        "GCC has computed y1, which clang would call",
    ),
    "a library of which nothing is used": Case(
        {"main.c": PRINTS, "part.c": "int value(int x) { return x; }\n", "lib.c": "int f(int x) { return x; }\n"},
        f"{LIBRARY} && gcc -O2 -c main.c part.c && gcc -o app main.o part.o -L. -lx",
        run="./app; readelf -d app | grep NEEDED",
    ),
}


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case, type[Shrinking]], tuple[str, str]]:
    """Builds a case, replaces its images, and returns what the program printed before and after, and all notes."""

    def shrunk(case: Case, kind: type[Shrinking]) -> tuple[str, str]:
        monkeypatch.chdir(tmp_path)
        for name, text in case.files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        if (wrappers := tmp_path / "bin").exists():
            (wrappers / "gcc").chmod(0o755)
            monkeypatch.setenv("PATH", str(wrappers), prepend=":")
        log, scratch = tmp_path / "record", tmp_path / "scratch"
        monkeypatch.setenv("AIOCG_CC_RECORD_FILES", "1")
        assert record_build(case.build, log, tmp_path / "shims") == 0
        before = _output(case.run)
        scratch.mkdir()
        work = kind(understand(read_record(log)), tmp_path, scratch, Lock())
        work.begin()
        notes = [*work.left_alone.values()]
        for image in work.images:
            image.add_found(image.quick)
            image.add_levels(image.levels[-1:])  # by link-time optimisation
            notes += image.notes
        for way in (FOUND, *{level for image in work.images for level in image.levels[-1:]}):
            for image in work.images:
                put(image.linker.inputs.link.output, image.contents.get(way, image.contents[OWN]))
            assert _output(case.run) == before, way
        return before, "\n".join(notes)

    return shrunk


def _output(command: str) -> str:
    return subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CASES)
def test_an_image_does_the_same_when_clang_has_compiled_its_units(
    name: str, images: Callable[..., tuple[str, str]]
) -> None:
    output, notes = images(CASES[name], Shrinking)
    assert output
    assert "scratch" not in notes  # where texts are that the preprocessor made
    assert any(one in notes for one in CASES[name].kept.split("|")) and bool(notes) == bool(CASES[name].kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_image_does_the_same_when_gcc_has_compiled_its_units_again(
    name: str, images: Callable[..., tuple[str, str]]
) -> None:
    output, _ = images(CASES[name], GccShrinking)
    assert output


@pytest.mark.parametrize(
    ("text", "retold"),
    [
        ("extern int other \\\n (int);\nint value(int x) { return x + 1; }\n", False),
        (
            "#include <assert.h>\n#include <limits.h>\n"
            "int value(int x) { assert(x < INT_MAX && x != 0x10); return x; }\n",
            False,
        ),
        (
            '#include <assert.h>\nint value(int x) {\n  assert(x > 0 &&\n    "the line of which");\n  return x;\n}\n',
            True,
        ),
        ("#if __GNUC__ > 4\nint value(int x) { return x; }\n#endif\n", True),
    ],
)
def test_only_what_the_compilers_read_in_different_ways_is_preprocessed_first(
    tmp_path: Path, text: str, retold: bool
) -> None:
    (tmp_path / "part.c").write_text(text)
    start = Start(("gcc", "-O2", "-c", "part.c"), tmp_path, compiler=("gcc",), environment=dict(os.environ))
    whole = parse(start.arguments, str(tmp_path))
    (unit,) = units_of(whole, tmp_path)
    found = readable(replace(unit, origin=start.origin(whole, "")), "-Oz", tmp_path)
    assert (found.source != unit.source) == retold


def test_objects_with_random_names_for_link_time_optimisation_are_known_again(tmp_path: Path) -> None:
    (tmp_path / "part.c").write_text("int value(int x) { return x; }\n")
    words = ("gcc", "-O2", "-flto", "-c", "part.c")
    while True:
        subprocess.run(words, cwd=tmp_path, check=True)
        content = (tmp_path / "part.o").read_bytes()
        if not re.search(rb"\.gnu\.lto_\.decls\.[0-9a-f]{16}", content):  # of one in sixteen a digit is not written
            break
    start = Start(words, tmp_path, compiler=("gcc",), environment=dict(os.environ))
    whole = parse(start.arguments, str(tmp_path))
    (unit,) = units_of(whole, tmp_path)
    unit = replace(unit, origin=start.origin(whole, hashlib.sha256(content).hexdigest()))
    check_repeatable(unit, tmp_path)
    (tmp_path / "part.c").write_text("int value(int x) { return x + 1; }\n")
    with pytest.raises(Unrepeatable):
        check_repeatable(unit, tmp_path)
