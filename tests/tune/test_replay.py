"""Builds that are replayed file by file."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from aiocg.tune._options import ALL_FILES, LINK
from aiocg.tune._replay import Replay, kept_meaning, overflow
from aiocg.tune._workspace import CommandFailed, TuneError, Workspace

pytestmark = pytest.mark.needs("libc", "make", "cc")

MAIN = "int part(int); int main(int argc, char **argv) { return part(argc); }\n"
PART = """
int part(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * n % 7; return s; }
int idle(int n) { return n * part(n); }
"""
Building = Callable[..., Replay]


@pytest.fixture
def replay(tmp_path: Path) -> Building:
    """Replays a build of `main.c` and `part.c` in a folder of its own."""

    def build(text: str, only: str = "*", **files: str) -> Replay:
        (root := tmp_path / "root").mkdir()
        for name, content in {"main.c": MAIN, "part.c": PART, **files}.items():
            (root / name).write_text(content)
        (objects := tmp_path / "objects").mkdir()
        return Replay.of(Workspace.of(root, tmp_path / "copy"), objects, text, only)

    return build


def by_itself(replay: Replay, text: str, image: str) -> bytes:
    """Return what a build makes of the same sources with other options, in the same place."""
    replay.workspace.run([text])
    return (replay.workspace.copy / image).read_bytes()


COMPILE = "cc -O2 {main} -c main.c && cc -O2 {part} -c part.c"
WAYS = {
    "objects": "cc -o app main.o part.o {link}",
    "archive": "rm -f libp.a && ar rcs libp.a part.o && cc -o app main.o -L. -lp {link}",
    "two steps": "rm -f p.a && ar qc p.a main.o && ar q p.a part.o && ranlib p.a && cc -o app p.a {link}",
    "thin": "rm -f p.a && ar rcsT p.a main.o part.o && cc -o app p.a {link}",
    "removed": "rm -f p.a && ar rcs p.a main.o part.o && rm main.o part.o && cc -o app p.a {link}",
    "renamed": "mkdir -p d && mv part.o d/part.o && cc -o app main.o d/part.o {link}",
    "stripped": "cc -o app main.o part.o {link} && strip app",
    "copied": "cc -o a.tmp main.o part.o {link} && cp a.tmp app",
    "objcopy": "cc -o a.elf main.o part.o {link} && objcopy -S a.elf app",
    "relocatable": "ld -r -o all.o main.o part.o && cc -o app all.o {link}",
    "probed": "cc -o /dev/null main.o part.o && cc -o app main.o part.o {link} && strip -o /dev/null app",
    "by the link": "cc {part} -O2 -o app part.c main.o {part} {link}",
}


def filled(way: str, main: str = "", part: str = "", link: str = "") -> str:
    """Return a build with options where those for files and links go."""
    return f"{COMPILE} && {way}".format(main=main, part=part, link=link)


@pytest.mark.few(2)
@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in WAYS.items()])
def test_an_image_is_the_one_that_the_build_makes_with_these_options(replay: Building, way: str) -> None:
    replayed = replay(filled(way))
    app = replayed.workspace.copy / "app"
    own = app.read_bytes()
    options = {ALL_FILES: ("-fno-ivopts",), "part.c": ("-Os",), LINK: ("-Wl,-z,norelro",)}
    replayed.build(options)
    changed = app.read_bytes()
    assert changed != own
    replayed.build({})
    assert app.read_bytes() == own
    replayed.build(options)
    assert app.read_bytes() == changed
    assert by_itself(replayed, filled(way, "-fno-ivopts", "-fno-ivopts -Os", "-Wl,-z,norelro"), "app") == changed


def test_the_original_folder_is_not_touched(replay: Building) -> None:
    replayed = replay(filled(WAYS["archive"]))
    replayed.build({"part.c": ("-Os",)})
    assert sorted(path.name for path in replayed.workspace.root.iterdir()) == ["main.c", "part.c"]


def test_a_file_whose_header_has_changed_since_stays_as_built(replay: Building) -> None:
    text = '#include "made.h"\nint part(int n) { return n + MADE; }\n'
    build = f"echo '#define MADE 1' > made.h && {filled(WAYS['objects'])} && echo '#define MADE 2' > made.h"
    replayed = replay(build, **{"part.c": text})
    assert list(replayed.kept) == ["part.c"]
    assert "compiling it again gives another object" in replayed.kept["part.c"]
    assert replayed.sources == ["main.c"]


@pytest.mark.slow
def test_the_time_of_a_build_does_not_vary(replay: Building) -> None:
    text = "const char *when = __DATE__ __TIME__; int part(int n) { return n; }\n"
    replayed = replay(f"{filled(WAYS['objects'])} && sleep 1.1", **{"part.c": text})
    assert replayed.kept == {}


def test_what_the_build_says_itself_stays(replay: Building) -> None:
    way = filled(WAYS["objects"], part="-fno-omit-frame-pointer --param max-inline-insns-auto=3")
    replayed = replay(way)
    own = (replayed.workspace.copy / "app").read_bytes()
    words = ("-fomit-frame-pointer", "--param=max-inline-insns-auto=90")
    assert replayed.build({"part.c": words})["app"].read_bytes() == own
    (unit,) = replayed.units["part.c"]
    assert replayed.words(unit, (*words, "-Os", "-fno-ivopts")) == ["-Os", "-fno-ivopts"]


def test_files_with_equal_objects_are_told_apart(replay: Building) -> None:
    more = {"a.c": "static int x;\n", "b.c": "static int x;\n"}
    text = f"cc -O2 -c a.c b.c && {filled('cc -o app main.o part.o a.o b.o')}"
    replayed = replay(text, **more)
    assert replayed.kept == {}
    assert set(replayed.sources) == {"main.c", "part.c", "a.c", "b.c"}


def test_equal_sources_of_one_name_are_told_apart(replay: Building) -> None:
    copies = " && ".join(f"mkdir d{n} && cp other d{n}/x.c && cc -O2 -c -o d{n}/x.o d{n}/x.c" for n in range(8))
    replayed = replay(f"{copies} && {filled('cc -o app main.o part.o d*/x.o')}", other="static int x;\n")
    assert replayed.kept == {}
    assert len(replayed.sources) == 10


def test_a_build_with_link_time_optimisation_of_its_own_is_replayed(replay: Building) -> None:
    replayed = replay("cc -O2 -flto -c main.c part.c && cc -O2 -flto -o app main.o part.o")
    assert replayed.kept == {}
    assert replayed.obstacle(LTO) == ""
    own = replayed.build({})["app"].read_bytes()
    assert replayed.build({ALL_FILES: ("-O0",)})["app"].read_bytes() != own


def test_an_archive_that_was_there_keeps_its_members(replay: Building) -> None:
    first = "cc -O2 -c -x c -o v.o vendor && ar rcs vendor.a v.o && rm v.o && "
    way = "cp vendor.a z.a && ar r z.a part.o && mkdir d && cd d && ar x ../z.a && cd .. && cc -o app main.o z.a"
    replayed = replay(first + filled(way), vendor="int vendor(int n) { return n; }\n")
    assert replayed.build({"part.c": ("-Os",)})["app"].read_bytes()


@pytest.mark.parametrize("out", ["../elsewhere", "$OLD"])
def test_a_build_that_writes_beside_its_copy_is_refused(
    replay: Building, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiocg.tune._replay.parent_folder", lambda: "/nowhere")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("OLD", str(tmp_path / "elsewhere"))
    with pytest.raises(TuneError, match="outside of its folder"):
        replay(f"cc -O2 -c part.c -o {out}/part.o && cc -O2 -c main.c && cc -o app main.o {out}/part.o")


def test_a_program_that_is_compiled_and_linked_at_once_has_options_for_all(replay: Building) -> None:
    replayed = replay("cc -O2 -o app main.c part.c")
    own = replayed.build({})["app"].read_bytes()
    assert replayed.sources == []
    assert replayed.build({ALL_FILES: ("-Os",)})["app"].read_bytes() != own
    assert replayed.compiler.endswith("cc")


def test_only_some_images_count(replay: Building) -> None:
    text = f"{filled(WAYS['objects'])} && cc -o tool main.o part.o"
    assert list(replay(text, "to*").build({})) == ["tool"]


def test_a_probe_that_fails_last_is_no_memory_that_is_too_small(replay: Building) -> None:
    replayed = replay(f"{filled(WAYS['objects'])} && (cc -o probe part.o -lnothing_of_the_kind || true)")
    assert list(replayed.images) == ["app"]
    assert replayed.build({})["app"].is_file()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{filled(WAYS['objects'])} && cc -o probe part.o -lnothing_of_the_kind", "cannot be replayed"),
        ("false", "the build failed"),
        ("true", "has compiled no C"),
        ("cc -c part.c", "none is linked"),
        (f"{filled(WAYS['objects'])} && printf x >> app", "comes out otherwise"),
    ],
)
def test_a_build_that_cannot_be_replayed_says_why(replay: Building, text: str, message: str) -> None:
    with pytest.raises(TuneError, match=message):
        replay(text)


def test_by_how_much_memory_is_too_small_is_a_number(replay: Building) -> None:
    script = (
        "MEMORY { flash : ORIGIN = 0x10000, LENGTH = 40 } "
        "SECTIONS { .text : { *(.text*) *(.rodata*) *(.eh_frame*) } > flash }"
    )
    link = "cc -nostdlib -static -Wl,--build-id=none -Wl,-T,small.ld -o app part.o"
    replayed = replay(f"cc -O2 -c part.c && {link}", **{"small.ld": script})
    with pytest.raises(CommandFailed) as caught:
        replayed.build({})
    assert 0 < overflow(caught.value) < 1000
    with pytest.raises(CommandFailed) as smaller:
        replayed.build({"part.c": ("-Os", "-fno-asynchronous-unwind-tables")})
    assert overflow(smaller.value) < overflow(caught.value)


@pytest.mark.parametrize(
    ("own", "words", "kept"),
    [("", ("-Os",), True), ("-O1", ("-fx", "-O2"), True), ("-O2", ("-Os",), False), ("-O0", ("-fx",), False)],
)
def test_what_a_low_level_leaves_defined_stays_so(own: str, words: tuple[str, ...], kept: bool) -> None:
    assert ("-fno-strict-aliasing" in kept_meaning(own, words)) is kept


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    (root / "file").write_text("x")
    (tmp_path / "place").write_text("a file where the folder should be")
    with pytest.raises(TuneError, match="cannot be copied"):
        Workspace.of(root, tmp_path / "place" / "copy")
    assert subprocess.run(["ls", root], capture_output=True, text=True).stdout == "file\n"


LTO = {ALL_FILES: ("-flto",)}
COLLECT = {ALL_FILES: ("-ffunction-sections", "-fdata-sections"), LINK: ("-Wl,--gc-sections",)}
SCRIPT = "SECTIONS { .rest : { *(.rest) } } INSERT AFTER .text;"
COUNTER = """
static int counter __attribute__((used)) = {}; __asm__(".data; .quad counter; .text");
"""
TASK = 'typedef void (*task)(void); __attribute__((section(".tasks"))) const task {name}[{count}] = {{{first}}};'


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("choice", "files", "link", "reason"),
    [
        (
            COLLECT,
            {"part.c": f'__attribute__((used)) static const char what[] = "demo"; {PART}'},
            "",
            "attribute `used`",
        ),
        (LTO, {"part.c": f"{TASK.format(name='first', count=1, first=0)} {PART}"}, "", "section .tasks"),
        (LTO, {}, "-Wl,--wrap,idle", "--wrap may mean something else"),
        (LTO, {"more": "--wrap=idle"}, "-Wl,@more", "--wrap=idle may mean something else"),
        (COLLECT, {"more": "-T own.ld", "own.ld": SCRIPT}, "-Wl,@more", "linker script"),
        (
            COLLECT,
            {"own.ld": SCRIPT},
            "-Wl,-T,own.ld",
            "linker script",
        ),
        (LTO, {"part.c": f"{PART} __attribute__((weak)) int hook(void) {{ return 1; }}"}, "hook.o", "defines hook"),
        (
            LTO,
            {"main.c": f"{COUNTER.format(1)} {MAIN}", "part.c": f"{COUNTER.format(2)} {PART}"},
            "",
            "names counter, which another file has for itself",
        ),
        (LTO, {}, "", ""),
        (COLLECT, {}, "", ""),
    ],
    ids=[
        *("used", "section", "wrap", "wrap of a file", "script of a file", "script", "weak", "assembly"),
        *("joined", "collected"),
    ],
)
def test_options_with_which_a_program_might_be_another_are_not_tried(
    replay: Building, choice: dict[str, tuple[str, ...]], files: dict[str, str], link: str, reason: str
) -> None:
    first = "echo 'int hook(void) { return 2; }' | cc -x c -c -o hook.o - && "
    found = replay(first + filled(WAYS["objects"], link=link), **files).obstacle(choice)
    assert reason in found
    assert bool(found) is bool(reason)


def test_a_source_whose_definition_the_link_may_override_stays_as_it_is(replay: Building) -> None:
    text = "int part(int n) { return n; } int use(int n) { return part(n) + 1; }"
    line = "cc -O2 -c main.c part.c other.c && cc -o app main.o other.o part.o -Wl,--allow-multiple-definition"
    kept = replay(line, **{"part.c": text, "other.c": "int part(int n) { return n + 9; }"}).kept
    assert kept == dict.fromkeys(("part.c", "other.c"), "the link may take another part")


def test_a_variable_that_a_library_has_for_itself_is_not_joined(replay: Building) -> None:
    """The program has a copy of it, or uses the library's: that depends on the code of the program."""
    library = "int state = 1; int part(int n) { return n + state; }"
    user = "extern int state; int part(int n); int main(void) { state = 5; return part(0); }"
    line = "cc -fPIC -shared -Wl,-Bsymbolic -o libown.so part.c && cc -O1 -fno-pie -c main.c && "
    replayed = replay(f"{line}cc -no-pie -o app main.o -L. -lown", **{"part.c": library, "main.c": user})
    assert "libown.so uses state of its own" in replayed.obstacle(LTO)


@pytest.mark.few(1)
@pytest.mark.parametrize("level", ["-Os", "-O2"])
@pytest.mark.parametrize("own", ["-O0", "-O2"])
def test_a_source_that_looks_at_the_level_is_the_same_at_another(replay: Building, own: str, level: str) -> None:
    text = (
        "int part(int n) {\n#ifdef __OPTIMIZE__\nn = n * 2;\n#endif\n"
        "#if __OPTIMIZE_SIZE__\nn = n + 100;\n#endif\nreturn n; }\n"
    )
    replayed = replay(f"cc {own} -c main.c part.c && cc -o app main.o part.o", **{"part.c": text})
    image = replayed.build({ALL_FILES: (level,)})["app"]
    assert subprocess.run([image], check=False).returncode == (1 if own == "-O0" else 2)


def test_an_image_that_lacks_what_others_look_for_is_refused(replay: Building) -> None:
    replayed = replay("cc -O2 -fPIC -c part.c && cc -shared -o libpart.so part.o")
    with pytest.raises(TuneError, match=r"libpart\.so would differ in the symbols: it lacks idle"):
        replayed.build({ALL_FILES: ("-fvisibility=hidden",)})
