"""Features of generated builds: how compilers and linkers are called."""

# ruff: noqa: E501 - tables of C
# fmt: off

from bench.fuzz.builds.project import Project


def wrap(project: Project) -> None:
    """A function that the link wraps, with or without its real one."""
    user, owner = project.pair()
    name = project.fresh("level")
    real = project.random.random() < 0.6
    owner.text.append(f"API int {name}(int x) {{ return x * 3; }}\nAPI int in{name}(int x) {{ return {name}(x + 1); }}")
    wrapper = f"__real_{name}(x) + 1000" if real else "1000"
    place = project.random.choice([user, project.units[0]])
    if place is owner:
        place = user
    place.text.append(f"API int {name}(int); API int __real_{name}(int); API int __wrap_{name}(int x) {{ return {wrapper}; }}")
    user.text.append(f"API int {name}(int); API int use{name}(int x) {{ return {name}(x) - 1; }}")
    project.prints(f"use{name}(argc) + in{name}(2)", f"API int use{name}(int); API int in{name}(int);")
    how = project.random.randrange(4)
    project.link.append((f"-Wl,--wrap={name}", f"-Wl,--wrap,{name}", f"-Xlinker --wrap -Xlinker {name}", f"-Wl,@wrap{name}")[how])
    if how == 3:
        project.files[f"wrap{name}"] = f"--wrap={name}\n"


def defined_symbol(project: Project) -> None:
    """A symbol that the link defines as another one."""
    name = project.fresh("real")
    project.unit().text.append(f"API int {name}(int x) {{ return x + 5; }}")
    project.prints(f"alias{name}(argc)", f"API int alias{name}(int);")
    project.link.append(f"-Wl,--defsym,alias{name}={name}")


def weak(project: Project) -> None:
    """A weak default that another unit overrides or not, and a weak reference to nothing."""
    one, other = project.pair()
    name = project.fresh("weak")
    one.text.append(f"API __attribute__((weak)) int {name}(int x); int {name}(int x) {{ return x + 1; }}" if not one.name.endswith("c") else f"__attribute__((weak)) int {name}(int x) {{ return x + 1; }}")
    if project.random.random() < 0.7:
        other.text.append(f"API int {name}(int x) {{ return x + 100; }}" if one.name != other.name else "")
    if one is not project.units[0] and other is not project.units[0]:
        project.prints(f"{name}(argc)", f"API int {name}(int);")
    else:
        project.calls.append(f'printf("%d\\n", {name}(argc));')
        if one is not project.units[0]:
            project.units[0].text.insert(0, f"API int {name}(int);")
    project.prints(f"nothing{name} ? 1 : 2", f"API int nothing{name}(void) __attribute__((weak));")


def constructors(project: Project) -> None:
    """Constructors and destructors, with priorities or in the order of the link."""
    for unit in project.units[: project.random.randrange(2, 5)]:
        name = project.fresh("begin")
        priority = project.random.choice(["", "(101)", "(200)", "(65000)"])
        kind = project.random.choice(["constructor", "constructor", "destructor"])
        unit.text.insert(0, f"#include <stdio.h>\n__attribute__(({kind}{priority})) static void {name}(void) {{ puts(\"{name}\"); fflush(stdout); }}")


def table(project: Project) -> None:
    """A table in a section of its own, found by the linker's symbols."""
    section = project.fresh("set_")
    used = project.random.choice(["used, ", "used, retain, "])
    for unit in project.units[1:]:
        name = project.fresh("entry")
        unit.text.append(f'static int {name}(int x) {{ return x + {project.number}; }}\n__attribute__(({used}section("{section}"))) static int (*const p{name})(int) = {name};')
    project.units[0].text.append(f"typedef int (*fn{section})(int); extern fn{section} const __start_{section}[], __stop_{section}[];")
    project.calls.append(f'for (fn{section} const *f = __start_{section}; f < __stop_{section}; f++) printf("%d\\n", (*f)(argc));')


def marked_table(project: Project) -> None:
    """A table between markers in the first and the last object."""
    section = f".{project.fresh('list')}"
    name = section[1:]
    first, last = project.units[0], project.units[-1]
    first.text.append(f'__attribute__((used, section("{section}"))) const int {name}_begin[1] = {{-1}}; extern const int {name}_end[];')
    for unit in project.units[1:-1]:
        unit.text.append(f'__attribute__((used, section("{section}"))) static const int {project.fresh("one")} = {project.random.randrange(99)};')
    last.text.append(f'API __attribute__((used, section("{section}"))) const int {name}_end[1]; const int {name}_end[1] = {{-2}};' if last.name.endswith("cc") else f'__attribute__((used, section("{section}"))) const int {name}_end[1] = {{-2}};')
    project.calls.append(f'for (const int *p = {name}_begin; p <= {name}_end; p++) printf("%d\\n", *p);')
    project.packed = False


def read_from_file(project: Project) -> None:
    """Something that is marked used, or only stands in a section of its own, and is read from the file."""
    unit, name = project.unit(), project.fresh("fw")
    mark = project.random.choice([f'used, section(".{name}")', "used", f'used, retain, section(".{name}")', f'section("{name}")'])
    storage = "API " if mark.startswith("section") else "static "
    if mark.startswith("section"):
        unit.text.append(f"API const char {name}[];")
        storage = ""
    unit.text.append(f'{storage}const char {name}[] __attribute__(({mark})) = "FW {name} board";')
    project.run.append(f"cat app lib*.so 2>/dev/null | grep -ac 'FW {name} board'")


def written_again(project: Project) -> None:
    """A source, or a header, that the build writes again after it was compiled."""
    unit, name = project.unit(), project.fresh("gen")
    which = project.random.randrange(3)
    project.before.append(f"echo '#define {name} 1' > {name}.h")
    unit.text.insert(0, f'#include "{name}.h"')
    project.value(f"return x + {name} * 10;", unit)
    if which == 0:
        project.between.append(f"echo '#define {name} 2' > {name}.h")
    elif which == 1:
        project.after.append(f"rm {name}.h")
    else:
        project.after.append(f"echo '#define {name} 3' > {name}.h")


def standard_input(project: Project) -> None:
    """A source that is the standard input."""
    unit = project.c_unit()
    how = project.random.randrange(3)
    unit.command = ("{cc} {options} -x c -c -o {object} - < {name}", "cat {name} | {cc} {options} -x c -c -o {object} -", "{cc} {options} -x c -c -o {object} /dev/stdin < {name}")[how]


def header_of_environment(project: Project) -> None:
    """Folders of headers that the environment names."""
    unit, name = project.unit(), project.fresh("env")
    variable = project.random.choice(["CPATH", "C_INCLUDE_PATH", "CPATH"]) if not unit.name.endswith("cc") else "CPATH"
    project.files[f"over{name}/{name}.h"] = f"#define {name} 2\n"
    project.files[f"late{name}/{name}.h"] = f"#define {name} 1\n"
    unit.text.insert(0, f"#include <{name}.h>")
    unit.options += ["-idirafter", f"late{name}"]
    unit.command = f"{variable}=over{name} {unit.command}"
    project.value(f"return x + {name};", unit)


def wrapper(project: Project) -> None:
    """A script called as the compiler, which adds an option."""
    added = project.random.choice(["-funsigned-bitfields", "-DADDED=5", "-fno-strict-aliasing", "-include $DIR/added.h", "-fno-ivopts", "-funsigned-char", "-O1", "-fsso-struct=big-endian"])
    project.files["bin/gcc"] = f'#!/bin/sh\nDIR=$(dirname "$0")\nexec /usr/bin/gcc {added} "$@"\n'
    project.files["bin/added.h"] = "#define ADDED 6\n"
    unit = project.c_unit()
    unit.text.insert(0, "#ifndef ADDED\n#define ADDED 1\n#endif")
    name = project.fresh("s")
    unit.text.append(f"struct {name} {{ int f : 3; char c; int i; }};")
    project.value(f"struct {name} s; s.f = 6 + x; s.c = (char)200; s.i = 1; return s.f * 100 + s.c + ADDED + *(char *)&s.i;", unit)


def response_file(project: Project) -> None:
    """Options from a file, from specs, and with spaces."""
    unit, name = project.unit(), project.fresh("rsp")
    how = project.random.randrange(4)
    if how == 0:
        project.files[name] = f"-D{name}=3\n"
        unit.options.append(f"@{name}")
    elif how == 1:
        unit.options.append(f"'-D{name}=(1 + 2)'")
    elif how == 2:
        project.files[f"{name}.h"] = f"#define {name} 4\n"
        unit.options += ["-include", f"{name}.h"]
    else:
        project.files[f"{name}.specs"] = f"*cpp_unique_options:\n+ -D{name}=8\n"
        unit.options.append(f"-specs={name}.specs")
    project.value(f"return x * {name};", unit)


def other_folder(project: Project) -> None:
    """A unit that is compiled in another folder, with relative paths."""
    unit, name = project.unit(), project.fresh("dir")
    project.files[f"{name}/{name}.h"] = f"#define {name} 4\n"
    unit.text.insert(0, f'#include "{name}.h"')
    unit.options.append("-I.")
    unit.command = f"(cd {name} && {unit.command.replace('{object}', '../{object}').replace('{name}', '../{name}')})"
    project.value(f"return x * {name};", unit)


def versions(project: Project) -> None:
    """Versions of symbols in a library of the build."""
    name = project.fresh("ver")
    attribute = project.random.random() < 0.5
    marks = (f'__attribute__((symver("{name}@LIB_1")))', f'__attribute__((symver("{name}@@LIB_2")))') if attribute else ("", "")
    text = f"{marks[0]} int {name}_old(int x) {{ return x; }}\n{marks[1]} int {name}_new(int x) {{ return x * x; }}\nint {name}_unused(int x) {{ return x; }}\n"
    if not attribute:
        text += f'__asm__(".symver {name}_old,{name}@LIB_1"); __asm__(".symver {name}_new,{name}@@LIB_2");\n'
    project.files[f"{name}.c"] = text
    project.files[f"{name}.map"] = f"LIB_1 {{ global: {name}; local: *; }};\nLIB_2 {{ global: {name}; }} LIB_1;\n"
    project.before.append(f"gcc -O2 -fPIC -c {name}.c && gcc -shared -Wl,--version-script={name}.map -o lib{name}.so {name}.o")
    project.link.append(f"-L. -l{name} -Wl,-rpath,'$ORIGIN'")
    project.units[0].text.append(f'API int {name}(int); API int {name}_1(int); __asm__(".symver {name}_1,{name}@LIB_1");')
    project.calls.append(f'printf("%d %d\\n", {name}(argc + 4), {name}_1(argc + 4));')


def interposition(project: Project) -> None:
    """A library whose exported functions the program replaces, or not."""
    name = project.fresh("rate")
    visibility = project.random.choice(["", "", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-fno-plt", "-O3"])
    shown = '__attribute__((visibility("default"))) '
    project.files[f"{name}.c"] = (
        f"{shown}int {name}(void) {{ return 5; }}\n{shown}int table_{name}[3] = {{1, 2, 3}};\n"
        f"int inner_{name}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += {name}() * i + table_{name}[i % 3]; return s; }}\n"
        f"{shown}int price_{name}(int n) {{ return inner_{name}(n) + {name}(); }}\n"
    )
    option = visibility if not visibility.startswith("-Wl") else ""
    how = visibility if visibility.startswith("-Wl") else ""
    if project.random.random() < 0.3:
        project.before.append(f"gcc -O2 -fPIC {option} -shared {how} -o lib{name}.so {name}.c")
    else:
        project.before.append(f"gcc -O2 -fPIC {option} -c {name}.c && gcc -shared {how} -o lib{name}.so {name}.o")
    project.link.append(f"-L. -l{name} -Wl,-rpath,'$ORIGIN'")
    unit = project.units[0]
    if project.random.random() < 0.6:
        unit.text.append(f"API int {name}(void) {{ return 100; }}")
    project.prints(f"price_{name}(argc + 4)", f"API int price_{name}(int);")
    if project.random.random() < 0.3:
        project.prints(f"table_{name}[1]++", f"extern int table_{name}[];")


def archive(project: Project) -> None:
    """Some of the units in an archive, named in one of many ways."""
    if project.packed or len(project.units) < 3:
        return
    project.packed = True
    name = project.fresh("arc")
    members = [unit for unit in project.units[1:] if unit.object.endswith(".o")]
    objects = " ".join(unit.object for unit in members)
    how = project.random.choice(["-l{n}", "-l:lib{n}.a", "-Wl,-Bstatic -l{n} -Wl,-Bdynamic", "./lib{n}.a", "-Wl,--whole-archive -l{n} -Wl,--no-whole-archive", "-Wl,--start-group -l{n} -Wl,--end-group", "-Xlinker -l{n}", "-Wl,-l{n}", "-static -l{n}", "-Wl,-Bstatic,-l{n},-Bdynamic"])
    thin = project.random.choice(["rcs", "rcs", "rcsT", "rcsD"])
    project.between.append(f"rm -f lib{name}.a && ar {thin} lib{name}.a {objects}")
    if project.random.random() < 0.5 and "-static" not in how:
        project.files[f"so{name}.c"] = "int nothing_here;\n"
        if how in ("-l:lib{n}.a", "-Wl,-Bstatic -l{n} -Wl,-Bdynamic"):
            project.between.append(f"gcc -shared -fPIC -o lib{name}.so so{name}.c")
    where = project.random.choice(["-L.", "-L$PWD"])
    project.link.append(f"ARCHIVE {where} {how.format(n=name)}")


def library(project: Project) -> None:
    """Some of the units in a shared library."""
    if project.packed or len(project.units) < 3:
        return
    project.packed = True
    name = project.fresh("shared")
    members = project.units[1:]
    for unit in members:
        unit.options.append("-fPIC")
    objects = " ".join(unit.object for unit in members)
    words = project.random.choice(["", "-Wl,-z,defs -lstdc++", "-Wl,-soname,lib{n}.so", "-Wl,-Bsymbolic-functions", "-Wl,--gc-sections", "-Wl,-z,now"]).format(n=name)
    project.between.append(f"g++ -shared {words} -o lib{name}.so {objects}")
    project.link.append(f"ARCHIVE -L. -l{name} -Wl,-rpath,'$ORIGIN'")


def partial_link(project: Project) -> None:
    """Two objects that are joined by a link of their own."""
    if project.packed or len(project.units) < 3:
        return
    project.packed = True
    objects = " ".join(unit.object for unit in project.units[1:])
    project.between.append(f"ld -r -o joined.o {objects}" if project.random.random() < 0.5 else f"gcc -r -nostdlib -o joined.o {objects}")
    project.link.append("ARCHIVE joined.o")


def loaded(project: Project) -> None:
    """A function that the program finds by its name."""
    unit, name = project.unit(), project.fresh("dyn")
    unit.text.append(f"API int {name}(int x) {{ return x + 8; }}" if unit.name.endswith("c") and not unit.name.endswith("cc") else f"API int {name}(int x); int {name}(int x) {{ return x + 8; }}")
    project.units[0].text.insert(0, "#define _GNU_SOURCE\n#include <dlfcn.h>")
    project.calls.append(f'{{ void *p = dlsym(RTLD_DEFAULT, "{name}"); printf("%d\\n", p ? ((int (*)(int))p)(argc) : -1); }}')
    project.link.append(project.random.choice(["-rdynamic", f"-Wl,--export-dynamic-symbol={name} -Wl,-u,{name}", "-Wl,-E", ""]))


def initial(project: Project) -> None:
    """Functions that the loader calls because the link says so."""
    unit, name = project.unit(), project.fresh("init")
    unit.text.insert(0, "#include <stdio.h>")
    unit.text.append(f"API void {name}(void); void {name}(void) {{ puts(\"{name}\"); fflush(stdout); }}")
    project.link.append(project.random.choice([f"-Wl,-init,{name}", f"-Wl,-fini,{name}", f"-Wl,-u,{name}"]))

def archive_written_again(project: Project) -> None:
    """An archive that is written again, with another member of the same name, after it was linked."""
    name = project.fresh("again")
    project.units[0].text.append(f"API int {name}(int);")
    project.calls.append(f'printf("%d\\n", {name}(argc));')
    project.files[f"{name}.c"] = f"int {name}(int x) {{ return x + NUMBER; }}\n"
    written = f"gcc -O2 -DNUMBER={{n}} -c {name}.c && rm -f lib{name}.a && ar {project.random.choice(['rcs', 'rcsT'])} lib{name}.a {name}.o"
    project.before.append(written.format(n=1))
    project.link.append(f"-L. -l{name}")
    if project.random.random() < 0.8:
        project.after.append(written.format(n=2))


def archive_before_object(project: Project) -> None:
    """Two archives that define the same function, one of which stands before what needs it."""
    name = project.fresh("twice")
    project.units[0].text.append(f"API int {name}(int);")
    project.calls.append(f'printf("%d\\n", {name}(argc));')
    for number in (1, 2):
        project.files[f"{name}_{number}.c"] = f"int {name}(int x) {{ return x + {number}; }}\n"
        project.before.append(f"gcc -O2 -c {name}_{number}.c && ar rcs lib{name}_{number}.a {name}_{number}.o")
    project.first += f" -L. -l{name}_1"
    project.link.append(f"-L. -l{name}_2")


def defined_twice(project: Project) -> None:
    """A function that two objects define, of which the link takes the first, or one that the link defines otherwise."""
    one, other = project.pair()
    name, how = project.fresh("double"), project.random.randrange(3)
    mark = project.random.choice(["", "__attribute__((noinline)) "])
    one.text.append(f"API {mark}int {name}(int x); int {name}(int x) {{ return x + 1; }} API int one_{name}(int x) {{ return {name}(x) * 10; }}")
    if how < 2:
        other.text.append(f"API {mark}int {name}(int x); int {name}(int x) {{ return x + 2; }}")
        project.link.append(("-Wl,-z,muldefs", "-Wl,--allow-multiple-definition")[how])
    else:
        other.text.append(f"API int {name}(int x); API int instead_{name}(int x) {{ return x + 5; }}")
        project.link.append(f"-Wl,--defsym,{name}=instead_{name}")
    other.text.append(f"API int other_{name}(int x) {{ return {name}(x) * 100; }}")
    project.prints(f"one_{name}(argc) + other_{name}(argc)", f"API int one_{name}(int); API int other_{name}(int);")


def object_readers(project: Project) -> None:
    """Tools that read objects of the build, or make something else of them."""
    unit = project.unit()
    project.between.append(project.random.choice(["size OBJECT", "nm OBJECT", "objdump -d OBJECT", "readelf -h OBJECT", "ld -r -o more.o OBJECT", "objcopy OBJECT more.o", "strip -o more.o OBJECT", "gcc -shared -o more.so OBJECT || true", "ar rcs more.a OBJECT", "ar rcs more.a OBJECT && ranlib more.a && nm more.a"]).replace("OBJECT", unit.object))
