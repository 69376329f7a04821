"""Features of generated builds: C++ over several units, and programs that look at themselves."""

# ruff: noqa: E501 - tables of C and C++
# fmt: off

from bench.fuzz.builds.project import Project, Unit

CXX = "{cxx} {options} -c -o {object} {name}"


def _cxx(project: Project, *text: str) -> Unit:
    """Add a unit in C++ at a random place behind the first."""
    unit = Unit(f"{project.fresh('object')}.cc", list(text), [project.random.choice(["-O2", "-O2", "-Os", "-O0", "-O1", "-O3"])], CXX)
    project.units.insert(project.random.randrange(1, len(project.units) + 1), unit)
    return unit


def hierarchy(project: Project) -> None:
    """Classes of a header, whose key function, implementations and users are in different units."""
    name, draw = project.fresh("Shape"), project.random
    virtual = draw.choice(["", "virtual "])
    destructor = draw.choice(["virtual ~{0}() {{ }}", "virtual ~{0}();", "virtual ~{0}() = 0;", "virtual ~{0}() = default;"]).format(name)
    project.files[f"{name}.h"] = (
        f"struct {name} {{ {destructor} virtual int area(int) const = 0; virtual {name} *self() {{ return this; }} int n = 3; }};\n"
        f"struct Left{name} : {virtual}{name} {{ int area(int) const override; Left{name} *self() override {{ return this; }} int left = 1; }};\n"
        f"struct Right{name} : {virtual}{name} {{ int area(int x) const override {{ return x * 5; }} int right = 2; }};\n"
        f"struct Both{name} : Left{name}, Right{name} {{ int area(int x) const override {{ return x * 7; }} Both{name} *self() override {{ return this; }} ~Both{name}() override {{ n_{name}++; }} static int n_{name}; }};\n"
        f"Left{name} *make_{name}(int);\n"
    )
    include = f'#include "{name}.h"\n#include <typeinfo>\n#include <cstring>'
    defined = f"{name}::~{name}() {{ }}" if "{ }" not in destructor and "default" not in destructor else ""
    _cxx(project, include, f"int Left{name}::area(int x) const {{ return x + n; }} int Both{name}::n_{name};\n{defined}")
    _cxx(project, include, f"Left{name} *make_{name}(int x) {{ return x & 1 ? new Left{name} : new Both{name}; }}")
    user = _cxx(project, include)
    cast = f"dynamic_cast<Right{name} *>(p)"
    project.value(
        f"Left{name} *p = make_{name}(x); Right{name} *r = {cast}; int v = p->area(x) + (r ? r->right * 100 : 0) + (typeid(*p) == typeid(Both{name}) ? 1000 : 0) + (int)std::strlen(typeid(*p).name()) * 10000 + (p->self() == p ? 7 : 0); delete p; return v + Both{name}::n_{name} * 3;",
        user,
    )


def thrown(project: Project) -> None:
    """An exception that goes through several units, one of them in C."""
    name, draw = project.fresh("Thrown"), project.random
    project.files[f"{name}.h"] = f"struct {name} {{ int n; explicit {name}(int n) : n(n) {{}} {draw.choice(['', 'virtual '])}~{name}() {{}} }};\n"
    _cxx(project, f'#include "{name}.h"\nAPI void throw_{name}(int x) {{ if (x > 2) throw {name}(x * 3); throw x; }}')
    cleanup = draw.random() < 0.4
    through = project.c_unit() if cleanup or draw.random() < 0.5 else _cxx(project)
    through.options.append("-fexceptions" if cleanup else draw.choice(["-fexceptions", "-fno-exceptions"]))
    body = f"int n __attribute__((cleanup(done_{name}))) = x; throw_{name}(n); return n;" if cleanup else f"throw_{name}(x); return x;"
    through.text.append(f"API void throw_{name}(int); static int seen_{name}; static void done_{name}(int *n) {{ seen_{name} += *n; }} API int get_{name}(void) {{ return seen_{name}; }}\nAPI int through_{name}(int x) {{ {body} }}")
    through.text.append(f"void *keep_{name} = (void *)done_{name};")
    user = _cxx(project, f'#include "{name}.h"\n#include <exception>\nAPI int through_{name}(int); API int get_{name}(void);')
    again = draw.choice(["return e.n;", "try { throw; } catch (...) { return e.n + 1; }", "auto p = std::current_exception(); try { std::rethrow_exception(p); } catch (const " + name + " &f) { return f.n + 5; }"])
    project.value(f"try {{ return through_{name}(x); }} catch (const {name} &e) {{ {again} }} catch (int n) {{ return n + 1000 + get_{name}(); }}", user)


def shared_state(project: Project) -> None:
    """State of inline functions, inline variables and templates, which is one in all units and in a library."""
    name, draw = project.fresh("state"), project.random
    kind = draw.choice(
        [
            "inline int &NAME() { static int n = 10; return n; }",
            "inline int NAME_v = 10; inline int &NAME() { return NAME_v; }",
            "template <class T> struct NAME_t { static T value; }; template <class T> T NAME_t<T>::value = 10; inline int &NAME() { return NAME_t<int>::value; }",
            "struct NAME_s { int n; NAME_s() : n(10) {} }; inline NAME_s &NAME_i() { static NAME_s s; return s; } inline int &NAME() { return NAME_i().n; }",
            "inline thread_local int NAME_v = 10; inline int &NAME() { return NAME_v; }",
        ]
    ).replace("NAME", name)
    project.files[f"{name}.h"] = f"{kind}\n"
    hidden = draw.choice(["", "", "-fvisibility-inlines-hidden", "-fno-gnu-unique"])
    options = ["-std=c++17", "-fPIC", hidden]
    one = Unit(f"{name}_one.cc", [f'#include "{name}.h"\nAPI int add_{name}(int x) {{ return {name}() += x; }}'], ["-O2", *options], CXX)
    if draw.random() < 0.5:
        project.units.append(one)
    else:
        project.files[one.name] = f'#define API extern "C"\n{one.text[0]}\n'
        project.before.append(f"g++ -O2 {' '.join(options)} -shared -o lib{name}.so {one.name}")
        project.link.append(f"-L. -l{name} -Wl,-rpath,'$ORIGIN'")
    two = _cxx(project, f'#include "{name}.h"\nAPI int add_{name}(int);')
    two.options += options
    project.value(f"add_{name}(x); {name}() += 1; return add_{name}(100) * 1000 + {name}();", two)


def instantiated(project: Project) -> None:
    """A template that is instantiated in another unit, with a specialisation."""
    name = project.fresh("Box")
    project.files[f"{name}.h"] = f"template <class T> struct {name} {{ T t; int get() const {{ int s = 0; for (int i = 0; i < 9; i++) s += (int)t * i; return s; }} static int count; }};\ntemplate <class T> int {name}<T>::count = 4;\nextern template struct {name}<long>; template <> int {name}<char>::get() const;\n"
    _cxx(project, f'#include "{name}.h"\ntemplate struct {name}<long>; template <> int {name}<char>::get() const {{ return 77; }}')
    user = _cxx(project, f'#include "{name}.h"')
    project.value(f"return {name}<long>{{x}}.get() + {name}<char>{{'a'}}.get() + {name}<short>{{(short)x}}.get() + {name}<long>::count++;", user)


def lifetimes(project: Project) -> None:
    """Objects that are constructed before `main` and destroyed after it, in threads, and by `atexit`."""
    name, draw = project.fresh("Life"), project.random
    project.files[f"{name}.h"] = f"#include <cstdio>\nstruct {name} {{ const char *n; {name}(const char *n) : n(n) {{ std::printf(\"+%s\\n\", n); std::fflush(stdout); }} ~{name}() {{ std::printf(\"-%s\\n\", n); }} }};\n"
    for part in range(draw.randrange(1, 4)):
        kind = draw.choice(["static ", "", "thread_local ", "static __attribute__((init_priority(300))) "])
        unit = _cxx(project, f'#include "{name}.h"\n#include <cstdlib>\n{kind}{name} life{part}_{name}("{part}"); static void late{part}() {{ std::puts("late {part}"); }}')
        project.value(f"static {name} in(\"in {part}\"); {draw.choice([f'std::atexit(late{part}); ', ''])}return life{part}_{name}.n[0] + x;", unit)
        unit.options.append(draw.choice(["", "-fno-threadsafe-statics", "-fno-use-cxa-atexit", "-fno-rtti"]))


def replaced_new(project: Project) -> None:
    """Operators new and delete that the program defines."""
    name = project.fresh("new")
    _cxx(project, f"#include <cstdlib>\n#include <new>\nint count_{name}; void *operator new(std::size_t n) {{ count_{name}++; return std::malloc(n); }} void operator delete(void *p) noexcept {{ count_{name} += 10; std::free(p); }} void operator delete(void *p, std::size_t) noexcept {{ count_{name} += 10; std::free(p); }}")
    user = _cxx(project, f"extern int count_{name};")
    project.value(f"int before = count_{name}; long *volatile p = new long(x); int v = (int)*p; delete p; return v * 1000 + count_{name} - before;", user)


def language_options(project: Project) -> None:
    """Options of C++ that decide what a program does, or what its units define."""
    unit = _cxx(project, "#include <cstdio>")
    unit.options.append(project.random.choice(["-fno-elide-constructors", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-std=c++20", "-std=gnu++14", "-fno-sized-deallocation", "-faligned-new", "-fno-implement-inlines", "-fconstexpr-depth=100", "-fno-weak", "-fno-enforce-eh-specs", "-fno-access-control", "-fchar8_t", "-fabi-version=11", "-fstrict-enums", "-fno-implicit-templates", "-fvisibility=hidden", "-fkeep-inline-functions", "-D_GLIBCXX_ASSERTIONS", "-D_GLIBCXX_USE_CXX11_ABI=0", "-fext-numeric-literals", "-fpermissive", "-fnothrow-opt"]))
    name = project.fresh("Copied")
    unit.text.append(f"static int copies_{name}; struct {name} {{ int n; {name}(int n) : n(n) {{}} {name}(const {name} &o) : n(o.n) {{ copies_{name}++; }} }};\nstatic {name} make_{name}(int x) {{ {name} c(x); return c; }} enum E_{name} {{ A_{name}, B_{name} }};")
    project.value(f"{name} c = make_{name}(x); E_{name} e = (E_{name})(x & 1); return c.n + copies_{name} * 100 + (e == B_{name}) + (int)sizeof(bool) + (int)(__cplusplus / 100);", unit)


def across_library(project: Project) -> None:
    """A variable of each kind that the program and a library share."""
    name, draw = project.fresh("shared"), project.random
    kind = draw.choice(["int", "__thread int", "const int", "int __attribute__((weak))", "__attribute__((visibility(\"protected\"))) int"])
    project.files[f"{name}.c"] = f"{kind} {name} = 5; int get_{name}(void) {{ return {name}; }} int (*at_{name}(void))(void) {{ return get_{name}; }}\n"
    project.before.append(f"gcc {draw.choice(['-O2', '-Os', ''])} -fPIC -shared -o lib{name}.so {name}.c")
    project.link.append(f"-L. -l{name} -Wl,-rpath,'$ORIGIN'")
    unit = project.c_unit()
    declared = kind.replace("const", "").replace(' __attribute__((weak))', '').replace('__attribute__((visibility("protected"))) ', '') if "const" not in kind else "const int"
    unit.text.append(f"extern {declared} {name}; int get_{name}(void); int (*at_{name}(void))(void);")
    change = "" if "const" in kind else f"{name} += x; "
    project.value(f"{change}return get_{name}() * 10 + {name} + (at_{name}() == get_{name} ? 100 : 0);", unit)


def plugin(project: Project) -> None:
    """A library that the program loads, which calls the program."""
    name, draw = project.fresh("plugin"), project.random
    owner = project.c_unit()
    owner.text.append(f"int offered_{name}(int x) {{ return x * 4 + 1; }} int data_{name} = 6;")
    project.files[f"{name}.c"] = f"int offered_{name}(int); extern int data_{name}; int run_{name}(int x) {{ return offered_{name}(x) + data_{name}; }}\n"
    project.before.append(f"gcc -O2 -fPIC -shared -o {name}.so {name}.c")
    project.units[0].text.append("#include <dlfcn.h>")
    project.calls.append(f'void *d{name} = dlopen("./{name}.so", RTLD_NOW); int (*r{name})(int) = d{name} ? (int (*)(int))dlsym(d{name}, "run_{name}") : 0; printf("%d\\n", r{name} ? r{name}(argc) : -1);')
    project.files[f"{name}.list"] = f"{{ offered_{name}; data_{name}; }};\n"
    project.link.append(draw.choice(["-rdynamic", "-Wl,-E", f"-Wl,--dynamic-list={name}.list", f"-Wl,--export-dynamic-symbol=offered_{name} -Wl,--export-dynamic-symbol=data_{name}"]) + " -ldl")


def own_table(project: Project) -> None:
    """A program that is linked twice: its second link has a table made from the first one's symbols."""
    name = project.fresh("symbols")
    project.units.append(Unit(f"{name}.c", [f'#include "{name}.h"\nint {name}_count = COUNT_{name};']))
    objects = " ".join(unit.object for unit in project.units)
    project.before.append(f"echo '#define COUNT_{name} 0' > {name}.h")
    project.between.append(f"gcc -o first_{name} {objects} {' '.join(word for word in project.link if not word.startswith('ARCHIVE'))} -lm 2> /dev/null || g++ -o first_{name} {objects} -lm 2> /dev/null || true")
    project.between.append(f"echo \"#define COUNT_{name} $(nm first_{name} 2> /dev/null | grep -c ' T main' || true)\" > {name}.h; gcc -O2 -c -o {name}.o {name}.c")
    project.prints(f"{name}_count + 5", f"extern int {name}_count;")


def made_by_program(project: Project) -> None:
    """A header that a program of the build prints."""
    name = project.fresh("made")
    project.files[f"gen_{name}.c"] = "#include <stdio.h>\nint main(void) { for (int i = 0; i < 5; i++) printf(\"%d,\", i * i); return 0; }\n"
    project.before.append(f"gcc -O2 -o gen_{name} gen_{name}.c && ./gen_{name} > {name}.inc")
    unit = project.c_unit()
    project.value(f"static const int t[] = {{\n#include \"{name}.inc\"\n}}; return t[x % 5];", unit)
    project.run.append(f"./gen_{name}")


def object_tools(project: Project) -> None:
    """An object that another tool changes between its compile and the link, or an image after it."""
    name, draw = project.fresh("tool"), project.random
    unit = project.c_unit()
    unit.text.append(f"int {name}(int x) {{ return x + 31; }}")
    how = draw.randrange(8)
    called = name
    if how == 0:
        called = f"renamed_{name}"
        project.between.append(f"objcopy --redefine-sym {name}={called} {unit.object}")
    elif how == 1:
        called = f"pre_{name}"
        project.units.append(Unit(f"only_{name}.c", [f"int {name}_b(int x) {{ return x + 8; }}"]))
        project.between.append(f"objcopy --prefix-symbols=pre_ only_{name}.o")
        called = f"pre_{name}_b"
    elif how == 2:
        project.between.append(f"strip -g {unit.object}")
    elif how == 3:
        project.files[f"{name}.txt"] = "text of a file\n"
        project.between.append(f"ld -r -b binary -o {name}.o {name}.txt")
        project.link.append(f"{name}.o")
        project.prints(f"_binary_{name}_txt_start[3] + (_binary_{name}_txt_end - _binary_{name}_txt_start)", f"extern const char _binary_{name}_txt_start[], _binary_{name}_txt_end[];")
    elif how == 4:
        project.between.append(f"objcopy --weaken-symbol={name} {unit.object}")
        project.units.append(Unit(f"strong_{name}.c", [f"int {name}(int x) {{ return x + 500; }}"]))
    elif how == 5:
        project.after.append("strip app")
    elif how == 6:
        project.files[f"{name}.txt"] = f"note {name}\n"
        project.after.append(f"objcopy --add-section .note.{name}={name}.txt app")
        project.run.append(f"grep -c 'note {name}' app")
    else:
        project.after.append("cp app app.bak && mv app.bak app")
    project.prints(f"{called}(argc)", f"int {called}(int);")


def entry(project: Project) -> None:
    """Arrays of functions that run before `main`, signals, jumps, and calls at the end."""
    name, draw = project.fresh("early"), project.random
    unit = project.c_unit()
    how = draw.randrange(5)
    unit.text.insert(0, "#include <stdio.h>\n#include <stdlib.h>\n#include <signal.h>\n#include <setjmp.h>\n#include <unistd.h>")
    if how == 0:
        unit.text.append(f'static void {name}(int c, char **v, char **e) {{ (void)v; (void)e; if (write(1, "early\\n", 6) < 0) _exit(c); }} __attribute__((section(".init_array"), used)) static void (*const p{name})(int, char **, char **) = {name};')
    elif how == 1:
        unit.text.append(f'static jmp_buf env{name}; __attribute__((noinline)) static void jump{name}(int x) {{ longjmp(env{name}, x + 1); }}')
        project.value(f"volatile int n = x; int r = setjmp(env{name}); if (r == 0) {{ n += 5; jump{name}(n); }} return r * 100 + n;", unit)
    elif how == 2:
        unit.text.append(f"static volatile sig_atomic_t got{name}; static void on{name}(int s) {{ got{name} = s; }}")
        project.value(f"signal(SIGUSR1, on{name}); raise(SIGUSR1); return got{name} + x;", unit)
    elif how == 3:
        unit.text.append(f'static void end{name}(void) {{ puts("end {name}"); }}')
        project.value(f"atexit(end{name}); return x;", unit)
    else:
        unit.text.append(f"__attribute__((noinline, noclone)) static void *here{name}(void) {{ return __builtin_return_address(0); }}")
        project.value(f"return here{name}() != 0 && x >= 0;", unit)


def instrumented(project: Project) -> None:
    """Options that add calls to a runtime or to the program itself, and files that a run leaves."""
    unit, name, draw = project.c_unit(), project.fresh("probe"), project.random
    how = draw.randrange(6)
    if how == 0:
        unit.options.append("-finstrument-functions")
        project.units.append(Unit(f"hook_{name}.c", ["#include <stdio.h>\nstatic int depth; __attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *f, void *c) { (void)f; (void)c; depth++; } __attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *f, void *c) { (void)f; (void)c; } int calls" + name + "(void) { return depth > 0; }"]))
        project.calls.append(f'printf("%d\\n", calls{name}());')
        project.units[0].text.append(f"int calls{name}(void);")
    elif how == 1:
        unit.options.append("--coverage")
        project.link.append("--coverage")
        project.run.append("ls *.gcda | wc -l")
    elif how == 2:
        unit.options.append("-fsanitize=undefined")
        project.link.append("-fsanitize=undefined")
        project.value("int y = 0x7fffffff - 20; return (y + x * 3) & 255;", unit)
    elif how == 3:
        unit.options.append("-fopenmp")
        project.link.append("-fopenmp")
        project.value("int s = 0;\n#pragma omp parallel for reduction(+:s)\nfor (int i = 0; i < 50 + x; i++) s += i;\nreturn s;", unit)
    elif how == 4:
        unit.options.append("-pg")
        project.link.append("-pg")
        project.run.append("ls gmon.out | wc -l")
    else:
        unit.options.append("-fstack-usage -fcallgraph-info")
        project.run.append("ls *.su | wc -l")
    project.value("return x * 3;", unit)


def preprocessor_words(project: Project) -> None:
    """Words for the preprocessor, the assembler and the driver, in several spellings."""
    unit, name, draw = project.c_unit(), project.fresh("word"), project.random
    project.files[f"inc_{name}/{name}.h"] = f"#define FROM_{name} 40\n"
    project.files[f"forced_{name}.h"] = f"#define FORCED_{name} 5\nstatic int forced_{name}(int x) {{ return x + 2; }}\n"
    how = draw.randrange(10)
    include = f"#include <{name}.h>"
    value = f"return FROM_{name} + x;"
    if how == 0:
        unit.options.append(f"-isystem inc_{name}")
    elif how == 1:
        unit.options.append(f"-idirafter inc_{name}")
    elif how == 2:
        unit.options.append(f"-iquote inc_{name}")
        include = f'#include "{name}.h"'
    elif how == 3:
        unit.options.append(f"-include forced_{name}.h")
        include, value = "", f"return FORCED_{name} + forced_{name}(x);"
    elif how == 4:
        unit.options.append(f"-imacros forced_{name}.h")
        include, value = "", f"return FORCED_{name} + x;"
    elif how == 5:
        unit.options.append(f"-Wp,-DWP_{name}=9 -Xpreprocessor -DXP_{name}=8")
        include, value = "", f"return WP_{name} * 100 + XP_{name};"
    elif how == 6:
        unit.options.append(f"-DQ_{name}='\"a b\"' '-DF_{name}(a)=((a)*2)' -UFROM_{name}")
        include, value = "", f"return Q_{name}[1] + F_{name}(x) + (int)sizeof Q_{name};"
    elif how == 7:
        unit.options.append(f"-fmacro-prefix-map={unit.name}=mapped -MMD -MF {name}.d -MT other -save-temps")
        include, value = "", "return (int)sizeof __FILE__ * 10 + __FILE__[0];"
        project.run.append(f"wc -l < {name}.d")
    elif how == 8:
        unit.options.append(f"--include=forced_{name}.h -Wa,--noexecstack -Wa,--defsym,ASM_{name}=3")
        include, value = "", f"return FORCED_{name} + x;"
    else:
        unit.options.append(f"-Iinc_{name} -nostdinc -isystem /usr/lib/gcc/x86_64-linux-gnu/12/include -isystem /usr/include -isystem /usr/include/x86_64-linux-gnu")
    unit.text.insert(0, include)
    project.value(value, unit)


def linked_otherwise(project: Project) -> None:
    """Scripts and rarer words of the link."""
    name, draw = project.fresh("link"), project.random
    unit = project.c_unit()
    how = draw.randrange(9)
    unit.text.append(f"int {name}(int x) {{ return x + 12; }}")
    if how == 0:
        project.files[f"{name}.ld"] = f"PROVIDE(provided_{name} = {name}); SECTIONS {{ .own_{name} : {{ start_{name} = .; KEEP(*(.own_{name})) stop_{name} = .; }} }} INSERT AFTER .data;\n"
        unit.text.append(f'__attribute__((section(".own_{name}"), used)) static int one_{name} = 4; __attribute__((section(".own_{name}"), used)) static int two_{name} = 5; extern int start_{name}[], stop_{name}[]; int provided_{name}(int);')
        project.value(f"return (int)(stop_{name} - start_{name}) * 100 + provided_{name}(x) + start_{name}[0];", unit)
        project.link.append(draw.choice([f"-T {name}.ld", f"-Wl,-T,{name}.ld", f"{name}.ld"]))
    elif how == 1:
        project.link.append(f"-Wl,-u,{name}")
    elif how == 2:
        project.files[f"{name}.map"] = "{ global: main; local: *; };\n"
        project.link.append(f"-Wl,--version-script={name}.map")
    elif how == 3:
        project.link.append("-Wl,--exclude-libs,ALL -Wl,-z,relro -Wl,-z,separate-code")
    elif how == 4:
        project.link.append("-Wl,--section-start=.special=0x20000000 -no-pie")
        unit.options.append("-fno-pie")
        unit.text.append(f'__attribute__((section(".special"))) int at_{name} = 3;')
        project.value(f"return (long)&at_{name} == 0x20000000 ? at_{name} + x : -1;", unit)
    elif how == 5:
        project.link.append("-Wl,-z,stack-size=0x200000 -Wl,--no-undefined -Wl,--no-copy-dt-needed-entries")
    elif how == 6:
        project.link.append("-Wl,--defsym=number=0x1234")
        project.prints("(int)(long)&number & 0xffff", "extern char number;") if "-no-pie" in " ".join(project.link) else None
    elif how == 7:
        project.units[0].text.append("extern char __executable_start, etext, edata, end;")
        project.prints("&etext > &__executable_start && &end >= &edata")
    else:
        project.link.append(draw.choice(["-Wl,-z,nodlopen", "-Wl,--disable-new-dtags", "-Wl,-z,initfirst", "-Wl,--orphan-handling=place", "-Wl,-z,max-page-size=0x10000", "-Wl,--build-id=none", "-Wl,--sort-section=name", "-Wl,-q", "-Wl,--compress-debug-sections=zlib", "-Wl,-Ttext-segment=0x600000 -no-pie", "-Wl,--spare-dynamic-tags=3"]))
    project.prints(f"{name}(argc)", f"int {name}(int);")
