"""Features of generated builds: what their sources say."""

# ruff: noqa: E501 - tables of C
# fmt: off

from bench.fuzz.builds.project import Project, Unit


def byte_order(project: Project) -> None:
    """The order of bytes in structures: by attribute, pragma or option."""
    how = project.random.randrange(3)
    unit = project.c_unit()
    head = ('__attribute__((scalar_storage_order("big-endian"))) ', "", "")[how]
    before = ("", '#pragma scalar_storage_order big-endian\n', "")[how]
    after = ("", "\n#pragma scalar_storage_order default\n", "")[how]
    if how == 2:
        unit.options.append("-fsso-struct=big-endian")
    name = project.fresh("head")
    unit.text.append(f"{before}struct {head}{name} {{ int port; }};{after}")
    project.value(f"struct {name} h = {{x}}; return *(unsigned char *)&h;", unit)


def bit_fields(project: Project) -> None:
    """Signedness and size of things that options change."""
    unit, name = project.c_unit(), project.fresh("s")
    unit.options.append(project.random.choice(["-funsigned-bitfields", "-funsigned-char", "-fshort-enums", "-fpack-struct", "-fshort-wchar", "-fno-signed-char", "-fsigned-char"]))
    unit.text.append(f"enum e{name} {{ A{name}, B{name} }}; struct {name} {{ char c; int f : 3; long l; enum e{name} e; __WCHAR_TYPE__ w; }};")
    project.value(f"struct {name} s; s.f = 6 + x; s.c = (char)(200 + x); return s.f * 1000 + s.c + (int)sizeof s * 7 + (int)sizeof s.e + (int)sizeof s.w;", unit)


def type_pun(project: Project) -> None:
    """A type pun that an option, a pragma or an attribute defines."""
    unit, name = project.c_unit(), project.fresh("pun")
    how = project.random.randrange(5)
    attribute = '__attribute__((optimize("no-strict-aliasing"))) ' if how == 0 else ""
    if how == 1:
        unit.text.insert(0, '#pragma GCC optimize("no-strict-aliasing")')
    elif how == 2:
        unit.text.append('#pragma GCC push_options\n#pragma GCC optimize("-fno-strict-aliasing")')
    elif how == 3:
        unit.options.append("-fno-strict-aliasing")
    elif how == 4:
        unit.text.append('_Pragma("GCC optimize(\\"no-strict-aliasing\\")")')
    unit.text.append(f"{attribute}__attribute__((noinline)) static int {name}(int *i, float *f) {{ *i = 1; *f = 0; return *i; }}")
    if how == 2:
        unit.text.append("#pragma GCC pop_options")
    project.value(f"return {name}(&x, (float *)&x);", unit)


def overflow(project: Project) -> None:
    """Signed overflow that an option or an attribute defines."""
    unit, name = project.c_unit(), project.fresh("wraps")
    how = project.random.randrange(3)
    attribute = '__attribute__((optimize("wrapv"))) ' if how == 0 else ""
    if how == 1:
        unit.options.append("-fwrapv")
    elif how == 2:
        unit.text.insert(0, '#pragma GCC optimize("-fwrapv")')
    unit.text.append(f"{attribute}__attribute__((noinline)) static int {name}(int x) {{ return x + 1 > x; }}")
    project.value(f"return {name}(0x7ffffff0 + 15 + (x & 0));", unit)


def null_checks(project: Project) -> None:
    """A null pointer check that an option or an attribute keeps."""
    unit, name = project.c_unit(), project.fresh("null")
    how = project.random.randrange(2)
    attribute = '__attribute__((optimize("no-delete-null-pointer-checks"))) ' if how == 0 else ""
    if how == 1:
        unit.options.append("-fno-delete-null-pointer-checks")
    unit.text.append(f"struct {name} {{ int a, b; }}; {attribute}__attribute__((noinline)) static int {name}(struct {name} *p) {{ int *q = &p->b; return p ? *q : 7; }}")
    project.value(f"struct {name} s = {{x, x}}; return {name}(&s);", unit)


def predefined(project: Project) -> None:
    """What macros say of the compiler, the level and the place."""
    unit = project.unit()
    choice = project.random.choice(
        [
            "__GNUC__", "__VERSION__[0] + __VERSION__[1]", "__LINE__", "__COUNTER__", "__INCLUDE_LEVEL__", "__BIGGEST_ALIGNMENT__",
            "(int)sizeof __FILE__", "(int)sizeof __BASE_FILE__", "__TIME__[7] + __TIME__[6] * 3 + __TIME__[4] * 5 + __TIME__[3] * 7 + __TIME__[1] * 11", "__DATE__[5]", "(int)(__STDC_VERSION__ / 100)" if not unit.name.endswith("cc") else "(int)(__cplusplus / 100)",
            "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__", "__STDC_HOSTED__", "__FLT_EVAL_METHOD__", "__INT_MAX__ / 1000", "__CHAR_BIT__", "__GXX_ABI_VERSION", "__SIZEOF_WCHAR_T__",
        ]
    )
    project.value(f"return ({choice}) + x;", unit)
    macro = project.random.choice(
        ["__OPTIMIZE__", "__OPTIMIZE_SIZE__", "__clang__", "__NO_INLINE__", "__PIC__", "__PIE__", "__SSP__", "__SSP_STRONG__", "__CET__", "__FAST_MATH__", "__EXCEPTIONS", "__GNUC_STDC_INLINE__", "_FORTIFY_SOURCE", "__AVX__", "__SSE4_2__", "__llvm__", "__STRICT_ANSI__", "__CHAR_UNSIGNED__", "__GCC_IEC_559", "__NEXT_RUNTIME__", "__STDC_IEC_60559_BFP__", "__SANITIZE_ADDRESS__", "__GCC_ASM_FLAG_OUTPUTS__", "__HAVE_SPECULATION_SAFE_VALUE", "__REGISTER_PREFIX__", "__USER_LABEL_PREFIX__", "__code_model_small__", "__k8__", "__pie__", "__FINITE_MATH_ONLY__", "__LP64__", "__BFLT16_MAX__", "__SEG_FS", "__DECIMAL_BID_FORMAT__", "__GCC_HAVE_DWARF2_CFI_ASM"]
    )
    unit = project.unit()
    name = project.fresh()
    if project.random.random() < 0.5:
        unit.text.append(f"API int {name}(int x) {{\n#ifdef {macro}\nreturn 1;\n#else\nreturn 2;\n#endif\n}}")
    else:
        unit.text.append(f"#define STRING_(...) #__VA_ARGS__\n#define STRING(...) STRING_(__VA_ARGS__)\nAPI int {name}(int x) {{ static const char s[] = STRING({macro}); return (int)sizeof s * 256 + s[0]; }}")
    project.prints(f"{name}(argc)", f"API int {name}(int);")


def several_lines(project: Project) -> None:
    """The line of a macro's call that takes several."""
    unit = project.unit()
    unit.text.append("#define HERE(a, b) (__LINE__ * 10 + (a) - (b))")
    project.value("return HERE(x,\n  2);", unit)


def compiler_asked(project: Project) -> None:
    """What `__has_builtin` and the like say of a compiler."""
    unit, name = project.unit(), project.fresh()
    asked = project.random.choice(
        ["__has_builtin(__builtin_va_arg_pack)", "__has_attribute(symver)", "__has_builtin(__builtin_bswap128)", "__has_include(<emmintrin.h>)", "__has_attribute(optimize)", "__has_builtin(__builtin_is_cpp14)", "__GNUC__ >= 8", "defined(__has_feature)", "defined(__has_extension)"]
    )
    unit.text.append(f"API int {name}(int x) {{\n#if {asked}\nreturn 1;\n#else\nreturn 2;\n#endif\n}}")
    project.prints(f"{name}(argc)", f"API int {name}(int);")


def attributes(project: Project) -> None:
    """Attributes of functions and variables."""
    unit, name = project.c_unit(), project.fresh("at")
    attribute = project.random.choice(
        [
            "noipa", "noclone", 'optimize("O3")', 'optimize("O0")', "noinline", "hot", "cold", "flatten", "no_reorder", "externally_visible", "no_icf", "returns_nonnull", "stack_protect", "no_stack_protector",
            'optimize("Ofast")', 'optimize("-fno-strict-aliasing")', 'target("sse4.2")', "leaf", "pure", "no_instrument_function", "access(none, 1)", "zero_call_used_regs(\"used-gpr\")", "noplt", "no_split_stack", "aligned(64)", 'section(".text.special")', "patchable_function_entry(4)", "nonnull", "simd", "target_clones(\"default\", \"avx2\")", "no_profile_instrument_function", "warn_unused_result", 'optimize(2, "unroll-loops")',
        ]
    )
    value = "int *q, int x" if attribute.startswith("access") else "int x"
    if attribute in ("returns_nonnull", "nonnull"):
        unit.text.append(f"__attribute__(({attribute})) int *{name}(int *p); int *{name}(int *p) {{ return p; }}")
        project.value(f"return *{name}(&x);", unit)
    else:
        unit.text.append(f"__attribute__(({attribute})) int {name}({value}); int {name}({value}) {{ int s = 0; for (int i = 0; i < x; i++) s ^= i * 3; return s; }}")
        project.value(f"return {name}({'&x, ' if 'q' in value else ''}x);", unit)


def variables(project: Project) -> None:
    """Attributes and kinds of variables."""
    unit, name = project.c_unit(), project.fresh("v")
    declared = project.random.choice(
        [
            "__thread int NAME = 4;", "static __thread int NAME __attribute__((tls_model(\"initial-exec\")));", "int NAME __attribute__((aligned(256)));", "int NAME __attribute__((common));", "volatile int NAME;", "int NAME __attribute__((section(\".data.special\"))) = 3;", "_Thread_local int NAME;", "int NAME __attribute__((nocommon));", "const int NAME = 7;", "int NAME __attribute__((visibility(\"hidden\"))) = 9;", "int NAME __attribute__((mode(DI)));", "int NAME; extern int NAME_2 __attribute__((alias(\"NAME\")));", "int NAME asm(\"other_NAME\") = 5;", "int NAME __attribute__((no_reorder)) = 1;", "int NAME __attribute__((weak)) = 8;", "int NAME __attribute__((section(\".bss.special\")));", "int NAME __attribute__((persistent)) = 1;",
        ]
    ).replace("NAME", name)
    unit.text.append(declared)
    change = "" if "const" in declared else f"{name} += x; "
    project.value(f"{change}return (int){name} + (int)sizeof {name} + ((unsigned long)&{name} & 3) ;", unit)


def structures(project: Project) -> None:
    """Layouts of structures."""
    unit, name = project.unit(), project.fresh("st")
    mark = project.random.choice(["packed", "aligned(16)", "ms_struct", "gcc_struct", "packed, aligned(2)", "may_alias", "designated_init"])
    pack = project.random.random() < 0.3
    unit.text.append(("#pragma pack(push, 2)\n" if pack else "") + f"struct __attribute__(({mark})) {name} {{ char c; long l; short a : 3; char b : 5; int i : 20; }};" + ("\n#pragma pack(pop)" if pack else ""))
    project.value(f"struct {name} s; __builtin_memset(&s, 0, sizeof s); s.a = 2; s.b = 3; s.i = x; unsigned char *p = (unsigned char *)&s; int h = (int)sizeof s; for (unsigned i = 0; i < sizeof s; i++) h = h * 3 + p[i]; return h;", unit)


def gnu_language(project: Project) -> None:
    """What GCC's C has beside the standard's."""
    unit = project.c_unit()
    body = project.random.choice(
        [
            "int f(int y) { return y + x; } return f(2);",
            "int n = x + 2; int a[n]; for (int i = 0; i < n; i++) a[i] = i; return a[n - 1] + (int)sizeof a;",
            "int r = ({ int y = x; y * 2; }); return r ?: 5;",
            "static void *const t[] = {&&a, &&b}; goto *t[x & 1]; a: return 1; b: return 2;",
            "__int128 y = x; y <<= 70; return (int)(y >> 68);",
            "_Complex double c = x + 2.0i; return (int)(__real__ (c * c)) + (int)__imag__ c;",
            "__float128 q = x; return (int)(q / 3);",
            "_Decimal64 d = x; return (int)(d * 2);",
            "switch (x) { case 0 ... 3: return 1; case 4 ... 90: return 2; } return 3;",
            "struct { int n; int a[]; } s = {x}; return s.n;",
            "int a[4] = {[1 ... 2] = 9}; return a[1] + a[3] + x;",
            "__auto_type y = x * 2; return y;",
            "typedef int v4 __attribute__((vector_size(16))); v4 a = {x, 2, 3, 4}; v4 b = a * a + 1; return b[0] + b[3];",
            "union { int i; float f; } u; u.f = (float)x; return u.i;",
            "return __builtin_popcount((unsigned)x) + __builtin_clz(1u | (unsigned)x) + __builtin_constant_p(x);",
            "int y; return __builtin_add_overflow(x, 0x7fffffff, &y) + __builtin_expect(x, 1);",
            "char *p = __builtin_alloca(16); p[3] = (char)x; return p[3] + (int)__builtin_object_size(p, 0);",
            "double d = x * 0.1; char b[40]; __builtin_snprintf(b, sizeof b, \"%.3f\", d); return b[0] + b[2] * 256;",
            "void inner(void) { x++; } void (*p)(void) = inner; p(); return x;",
            "struct { char c; struct { int i; } __attribute__((packed)); } s = {1, {x}}; return (int)sizeof s + s.i;",
        ]
    )
    project.value(body, unit)


def assembly(project: Project) -> None:
    """Assembly: in functions, between them, and as a unit."""
    name = project.fresh("asm")
    how = project.random.randrange(5)
    unit = project.c_unit()
    if how == 0:
        unit.text.append(f'__asm__(".text\\n.globl {name}\\n{name}: lea 7(%rdi), %eax\\nret\\n"); extern int {name}(int);')
        project.value(f"return {name}(x);", unit)
    elif how == 1:
        project.value('int y; __asm__ volatile("lea 3(%1), %0" : "=r"(y) : "r"(x)); return y;', unit)
    elif how == 2:
        project.files[f"{name}.bin"] = "binary"
        unit.text.append(f'__asm__(".section .rodata\\n{name}: .incbin \\"{name}.bin\\"\\n.previous\\n"); extern const char {name}[] __attribute__((visibility("hidden")));')
        project.value(f"return {name}[x & 3];", unit)
    elif how == 3:
        unit.text.append(f"static int {name}(int x) asm(\"label_{name}\"); __attribute__((used)) static int {name}(int x) {{ return x + 4; }}")
        project.value(f'long r; __asm__ volatile("call label_{name}" : "=a"(r), "+D"(x) : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc"); return (int)r;', unit)
    else:
        project.units.append(Unit(f"{name}.S", [f"#define VALUE 9\n.text\n.globl {name}\n.type {name},@function\n{name}: lea VALUE(%rdi), %eax\nret\n.section .note.GNU-stack,\"\",@progbits"]))
        project.prints(f"{name}(argc)", f"API int {name}(int);")


def resolved(project: Project) -> None:
    """A function chosen by a resolver, an alias, and a weak reference by another name."""
    unit, name = project.c_unit(), project.fresh("res")
    how = project.random.randrange(3)
    if how == 0:
        unit.text.append(f'static int {name}_a(int x) {{ return x + 6; }} static int (*{name}_r(void))(int) {{ return {name}_a; }} int {name}(int) __attribute__((ifunc("{name}_r")));')
    elif how == 1:
        unit.text.append(f'int {name}_a(int x) {{ return x + 7; }} extern int {name}(int) __attribute__((alias("{name}_a")));')
    else:
        unit.text.append(f'int {name}_a(int x) {{ return x + 8; }} static int {name}(int) __attribute__((weakref("{name}_a")));')
    project.value(f"return {name}(x);", unit)


def pragmas(project: Project) -> None:
    """Pragmas that both compilers know, or neither."""
    unit, name = project.c_unit(), project.fresh("pr")
    how = project.random.choice(
        [
            f"#pragma weak {name}", f"#pragma redefine_extname {name} renamed_{name}", "#pragma GCC ivdep", "#pragma region here", f"#pragma GCC visibility push(hidden)\nint hid_{name};\n#pragma GCC visibility pop", "#pragma STDC FP_CONTRACT OFF", "#pragma message \"hello\"",
            '#pragma GCC target("avx2")', '#pragma GCC optimize("Ofast")', '#pragma GCC optimize("O3,unroll-loops")', "#pragma omp parallel", '#pragma GCC optimize 3', "#pragma push_macro(\"X\")", '#pragma GCC diagnostic ignored "-Wall"', "#pragma once", "#pragma GCC system_header", '#pragma GCC optimize ("wrapv")', "#pragma unknown thing", '#pragma GCC push_options\n#pragma GCC optimize("O1")\n#pragma GCC pop_options',
        ]
    )
    if how.startswith(("#pragma GCC ivdep", "#pragma omp")):
        unit.text.append(f"void {name}(int *p, int n) {{\n{how if 'omp' not in how else '#pragma omp simd'}\nfor (int i = 0; i < n; i++) p[i] = n; }}")
        project.value(f"int a[4]; {name}(a, 4); return a[x & 3];", unit)
    else:
        unit.text.append(f"{how}\nint {name}(int x) {{ double d = x / 3.0; return (int)(d * 1000) + x; }}")
        project.value(f"return {name}(x);", unit)


def cplusplus(project: Project) -> None:
    """C++: exceptions, static initialisation, templates, inline functions, virtual ones."""
    unit = Unit(f"{project.fresh('cpp')}.cc", ["#include <stdio.h>\n#include <string>\n#include <vector>\n#include <stdexcept>"], ["-O2"], "{cxx} {options} -c -o {object} {name}")
    project.units.insert(1, unit)
    body = project.random.choice(
        [
            "try { if (x) throw std::runtime_error(\"t\"); } catch (const std::exception &e) { return e.what()[0]; } return 0;",
            "std::vector<int> v; for (int i = 0; i < x; i++) v.push_back(i * i); int s = 0; for (int y : v) s += y; return s;",
            "std::string s(\"abc\"); s += std::to_string(x); return (int)s.size() * 100 + s.back();",
            "static int n = x * 7; return n++;",
            "struct B { virtual int f() { return 1; } virtual ~B() {} }; struct D : B { int f() override { return 2; } }; B *b = x > 90 ? new B : new D; int r = b->f(); delete b; return r;",
            "auto f = [x](int y) { return x + y; }; return f(3);",
            "try { std::vector<int> v; return v.at((unsigned)x); } catch (const std::out_of_range &) { return 9; }",
            "if constexpr (sizeof(long) == 8) return x + 8; else return x;",
        ]
    )
    project.value(body, unit)
    name = project.fresh("S")
    unit.text.append(f"struct {name} {{ {name}() {{ puts(\"{name}\"); fflush(stdout); }} ~{name}() {{ puts(\"~{name}\"); }} }}; {project.random.choice(['static ', 'static __attribute__((init_priority(500))) '])}{name} the_{name};")


def fortified(project: Project) -> None:
    """Checks of the C library and of the stack that an option asks for."""
    unit = project.c_unit()
    unit.options.append(project.random.choice(["-D_FORTIFY_SOURCE=2", "-D_FORTIFY_SOURCE=1", "-fstack-protector-all", "-fstack-protector", "-fcf-protection=full"]))
    unit.text.insert(0, "#include <string.h>\n#include <stdio.h>")
    project.value('char b[16]; snprintf(b, sizeof b, "%d", x); char c[40]; strcpy(c, b); return c[0] + (int)strlen(c);', unit)


def mathematics(project: Project) -> None:
    """Floating point, with options that may change it."""
    unit = project.c_unit()
    unit.options.append(project.random.choice(["-ffast-math", "-ffloat-store", "-fsignaling-nans", "-frounding-math", "-fno-math-errno", "-ffinite-math-only", "-mfpmath=387", "-msse2", "-fexcess-precision=standard", "-ffp-contract=off", "-fsingle-precision-constant", "-mfma"]))
    unit.text.insert(0, "#include <math.h>")
    project.value("double d = x; double q = d * d + 2.0; return (int)(q * 4) + (isnan(d) ? 1 : 0);", unit)


def contracted(project: Project) -> None:
    """Products and sums that a machine can round once."""
    unit, name = project.c_unit(), project.fresh("fused")
    unit.options.append(project.random.choice(["-mfma", "-mfma -std=c11", "-march=haswell", "-mfma -ffp-contract=off", "-mfma -ffp-contract=fast", "-march=x86-64-v3"]))
    body = project.random.choice(["double t = a * b; return t + c;", "return a * b + c;", "return c - a * b;", "c += a * b; return c;"])
    unit.text.append(f"__attribute__((noinline)) static double {name}(double a, double b, double c) {{ {body} }}")
    project.value(f"volatile double a = x + 0.1, b = 0.7, p = a * b, q = {name}(a, b, -p), r = {name}(a, b, p); return (q != 0) + 2 * (r != 0) + 4 * (r != p + p);", unit)


def inlined_otherwise(project: Project) -> None:
    """A function of a header in units with other options: each has its own, or all have that of the first one."""
    name, draw = project.fresh("head"), project.random
    options = draw.choice([("-fwrapv", ""), ("-DNDEBUG", ""), ("-fno-strict-aliasing", ""), ("-ffast-math", "-fno-fast-math"), ("-fno-delete-null-pointer-checks", ""), ("-O0", "-O3"), ("-fno-builtin", ""), ("-fshort-enums", "")])
    whole = draw.random() < 0.5
    project.files[f"{name}.h"] = (
        f"#include <math.h>\n#include <string.h>\nenum e_{name} {{ A_{name}, B_{name} }};\n#ifdef NDEBUG\n#define ADDED 1\n#else\n#define ADDED 2\n#endif\n"
        f"{'inline __attribute__((noinline))' if whole else 'static inline'} int {name}(int x, int *i, float *f) {{ *i = 1; *f = 0; return *i * 100 + (x > 0 && x + 0x7ffffff0 > x ? 10 : 0) + ADDED + (int)sizeof(enum e_{name}) * 1000 + (isnan(*f) ? 7 : 0) + (int)strlen(\"abc\") * 3; }}\n"
    )
    for option in draw.sample(options, 2):
        unit = Unit(f"{project.fresh('inl')}.{'cc' if whole else 'c'}", [f'#include "{name}.h"'], ["-O2", option], "{cxx} {options} -c -o {object} {name}" if whole else Unit("").command)
        project.units.append(unit)
        pun = "(float *)&i" if option == "-fno-strict-aliasing" and not whole else "&f"
        project.value(f"int i; float f; return {name}(x & 7, &i, {pun});", unit)


def common(project: Project) -> None:
    """Variables that several units define without a value, of which one may give it, or be larger."""
    name, draw = project.fresh("common"), project.random
    sizes = [draw.choice([1, 2, 8]) for _ in range(2)]
    given = draw.choice(["", "", " = {5, 6}"])
    for number, size in enumerate([*sizes, *([2] if given else [])]):
        unit = Unit(f"{name}_{number}.c", [f"int {name}[{size}]{given if number == 2 else ''};"], ["-O2", "-fcommon"])
        project.units.append(unit)
        project.value(f"{name}[0] += x; return {name}[0] * 10 + ((long)&{name}[0] & 3);", unit)


def own_functions(project: Project) -> None:
    """Functions of the C library that the program defines, and what compilers make calls of."""
    name, draw = project.fresh("own"), project.random
    unit = Unit(f"{name}.c", ["#include <stddef.h>\n#include <unistd.h>"], [draw.choice(["-O2", "-O0", "-Os"]), draw.choice(["-fno-builtin", "-ffreestanding"])])
    project.units.append(unit)
    user = project.c_unit()
    user.text.insert(0, f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nextern int {name};")
    text, body = draw.choice(
        [
            ("int puts(const char *s) { size_t n = 0; while (s[n]) n++; NAME++; return (int)write(1, s, n) + (int)write(1, \"\\n\", 1); }", "fflush(stdout); printf(\"text\\n\"); fflush(stdout); puts(\"more\"); return (NAME > 0) + x;"),
            ("int putchar(int c) { char d = (char)c; NAME++; return (int)write(1, &d, 1); }", "fflush(stdout); printf(\"t\"); fflush(stdout); printf(\"%c\", 'u'); fflush(stdout); return x;"),
            ("size_t strlen(const char *s) { const char *p = s; while (*p) p++; NAME++; return (size_t)(p - s); }", "const char *volatile s = \"abc\"; int n = 0; while (s[n]) n++; return (int)strlen(s) + (int)strlen(\"abcd\") + n;"),
            ("void *memset(void *p, int c, size_t n) { unsigned char *q = p; while (n--) *q++ = (unsigned char)c; return p; } void *memcpy(void *restrict a, const void *restrict b, size_t n) { char *p = a; const char *q = b; while (n--) *p++ = *q++; return a; }", "char a[400], b[400]; memset(a, x, sizeof a); memcpy(b, a, sizeof b); struct { int n[90]; } s = {{x}}, t = s; for (int i = 0; i < 90; i++) s.n[i] = 0; return b[x] + t.n[0] + t.n[5] + s.n[0];"),
            ("static char heap[65536]; static size_t at; void *malloc(size_t n) { NAME++; at += (n + 15) & ~(size_t)15; return heap + at - ((n + 15) & ~(size_t)15); } void free(void *p) { NAME += 100; (void)p; }", "int before = NAME; char *volatile p = malloc(10); p[0] = 3; free(p); return NAME - before + x;"),
            ("int abs(int x) { NAME++; return x < 0 ? -x : x; }", "return abs(x - 4);"),
            ("int printf(const char *s, ...) { size_t n = 0; while (s[n]) n++; NAME++; return (int)write(1, s, n); }", "fflush(stdout); printf(\"text\\n\"); printf(\"more\"); return NAME + x;"),
            ("int fflush(void *); void exit(int n) { NAME++; fflush(0); _exit(n + 20); }", "if (x > 50) exit(x); return x;"),
            ("char *strchr(const char *s, int c) { NAME++; for (; *s != (char)c; s++) if (!*s) return 0; return (char *)s; } int strcmp(const char *a, const char *b) { while (*a && *a == *b) a++, b++; return *(unsigned char *)a - *(unsigned char *)b; }", "const char *volatile s = \"abcd\"; return (strchr(s, 'c') != 0) + (strcmp(s, \"abd\") < 0) * 2 + x;"),
        ]
    )
    unit.text.append(f"int {name}; {text}".replace("NAME", name))
    project.value(body.replace("NAME", name), user)


def named_lines(project: Project) -> None:
    """Lines that say from which file they are, as generators of parsers write them."""
    unit, name = project.c_unit(), project.fresh("line")
    marker = project.random.choice(['#line 70 "other.y"', "#line 500", '# 40 "other.l"', '# 1 "/usr/include/none.h" 1 3', '# 9 "other.h" 1 3 4', '#line 7 "/usr/include/none.h"'])
    unit.text.append(f"{marker}\n#ifdef __clang__\n#define {name}_BY 5\n#else\n#define {name}_BY 6\n#endif\nint {name}(int x) {{ return x + __LINE__ + (int)sizeof __FILE__ * 1000 + {name}_BY; }}")
    project.value(f"return {name}(x);", unit)


def character_sets(project: Project) -> None:
    """Texts whose bytes depend on options, and files with other ends of lines."""
    unit, name = project.c_unit(), project.fresh("text")
    unit.options.append(project.random.choice(["", "-fexec-charset=ISO-8859-1", "-finput-charset=ISO-8859-1", "-fwide-exec-charset=UTF-16LE", "-fexec-charset=UTF-8", "-finput-charset=UTF-8", "-trigraphs", "-std=c99", "-fextended-identifiers"]))
    project.files[f"{name}.h"] = project.random.choice(["\ufeff", ""]) + f"#define {name} \\\r\n 4\r\nstatic const char t_{name}[] = \"\u00e9t\u00e9 ??/?\" \"x\";\r\n".replace("??/?", project.random.choice(["", "??!"]))
    project.value(f"\n#include \"{name}.h\"\nunsigned h = {name}; for (unsigned i = 0; i < sizeof t_{name}; i++) h = h * 31 + (unsigned char)t_{name}[i]; return (int)h + (int)sizeof L\"\u00e9\" * 7 + x + L'\u00e9';", unit)


def machine(project: Project) -> None:
    """Options and attributes of the machine that decide how functions are called, or what types are."""
    unit, name = project.c_unit(), project.fresh("abi")
    how = project.random.choice(["-mlong-double-64", "-mlong-double-128", "-mno-red-zone", "-mabi=ms", "ms_abi", "-fpcc-struct-return", "register", "-mcmodel=large -fno-pie", "-mcmodel=medium -fno-pie", "-fsplit-stack", "-malign-data=abi", "-fno-jump-tables", "-mstackrealign", "-mpreferred-stack-boundary=5", "-mno-mmx", "-mfentry", "-fzero-call-used-regs=used", "-mrecip", "-mno-80387 -mno-fp-ret-in-387", "-mveclibabi=svml", "-msse2avx", "-mgeneral-regs-only", "-fshort-wchar"])
    if how == "register":
        unit.text.insert(0, f'register long kept_{name} asm("r15");')
        project.value(f"long before = kept_{name}; kept_{name} = x; int r = (int)kept_{name} + 1; kept_{name} = before; return r;", unit)
        return
    attribute = "__attribute__((ms_abi)) " if how == "ms_abi" else ""
    unit.options += [how] if how.startswith("-") else []
    unit.text.append(f"struct {name} {{ int a, b, c, d, e; }}; {attribute}__attribute__((noinline)) static struct {name} {name}(int x, ...) {{ struct {name} s = {{x, 2, 3, 4, x}}; return s; }}")
    number = "" if how.startswith(("-mgeneral", "-mno-80387")) else " + (int)sizeof(long double) * 100"
    project.value(f"return {name}(x, 1).e{number} + (int)_Alignof(long long);", unit)


def threads(project: Project) -> None:
    """Variables of threads that units define in several models."""
    owner, name, draw = project.c_unit(), project.fresh("tls"), project.random
    models = ["", '__attribute__((tls_model("initial-exec"))) ', '__attribute__((tls_model("local-dynamic"))) ', '__attribute__((tls_model("global-dynamic"))) ']
    owner.text.append(f"{draw.choice(models)}__thread int {name} = 4; {draw.choice(models)}static __thread int s_{name}; int add_{name}(int x) {{ s_{name} += x; return {name} += s_{name}; }}")
    user = Unit(f"{name}.c", [f"#include <pthread.h>\nextern {draw.choice(models)}__thread int {name}; int add_{name}(int); static void *run_{name}(void *p) {{ *(int *)p = add_{name}(3) * 100 + {name}; return p; }}"], ["-O2", draw.choice(["", "-ftls-model=local-exec", "-fPIC", "-mtls-dialect=gnu2"]), "-pthread"])
    project.units.append(user)
    project.link.append("-pthread")
    project.value(f"int r = x; pthread_t t; if (pthread_create(&t, 0, run_{name}, &r)) return -1; pthread_join(t, 0); return r + add_{name}(x) * 1000 + {name};", user)


def other_words(project: Project) -> None:
    """Words that only GCC's preprocessor or C has."""
    unit, name = project.c_unit(), project.fresh("word")
    asked = project.random.choice(["#cpu(x86_64)", "#machine(x86_64)", "__has_include_next(<stdio.h>)", "defined __INTEL_COMPILER || __GNUC__ > 5", "'\\377' < 0", "(-1 >> 1) == -1", "__STDC_HOSTED__", "__has_attribute(fallthrough)", "__has_builtin(__builtin_has_attribute)", "__SIZEOF_FLOAT80__ == 16", "__GCC_IEC_559 > 0"])
    body = project.random.choice(["return x;", "return __builtin_types_compatible_p(__typeof__(x), int) + x;", "return __builtin_choose_expr(1, x, 0);", "struct { int a; struct { int b; }; } s = {x, {2}}; return s.b + s.a;", "int a[0]; return (int)sizeof a + x;", "enum __attribute__((packed)) { A, B } e = B; return (int)sizeof e + x;", "typedef int t __attribute__((mode(HI))); return (int)sizeof(t) + x;", "return (int)_Generic(x, int: 4, default: 5) + x;", "_Atomic int a = x; a += 3; return a;", "{ __label__ out; if (x) goto out; x = 9; out: return x; }", "return __builtin_has_attribute(x, packed) + x;", "unsigned _BitInt8 = 3; return (int)_BitInt8 + x;", "extern int printf(const char *, ...); return sizeof(printf) + x;", "return sizeof(void) + x;"])
    unit.text.append(f"int {name}(int x) {{\n#if {asked}\nx += 3;\n#endif\n{body} }}")
    project.value(f"return {name}(x);", unit)
