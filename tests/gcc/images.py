"""Container images with a GCC, made without a registry: of this machine's compiler, or of a Debian suite."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["SUITES", "debian_rootfs", "host_rootfs", "import_image"]

HEADERS = (
    *("assert.h", "ctype.h", "errno.h", "float.h", "inttypes.h", "limits.h", "locale.h", "math.h", "setjmp.h"),
    *("signal.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "time.h"),
    *("strings.h", "sys/time.h", "sys/types.h", "sys/wait.h", "unistd.h"),
)
TOOLS = ("sh", "cat", "mkfifo", "sleep")  # what containers need beside the compiler; some tests sleep
DEBIAN = "http://deb.debian.org/debian"
SUITES = {9: "bullseye", 10: "bullseye", 11: "bookworm", 12: "bookworm", 13: "trixie", 14: "trixie"}


def import_image(client: Any, rootfs: Path, name: str, changes: Iterable[str] = ()) -> str:
    """Make an image of an archive of files, and return its id.

    Args:
        client: docker-py's `APIClient`.
        rootfs: the archive.
        name: `repository:tag`.
        changes: lines of a Dockerfile, such as `ENV PATH=/usr/bin`.
    """
    repository, _, tag = name.rpartition(":")
    said = client.import_image_from_file(str(rootfs), changes=list(changes))
    image = str(json.loads(said.splitlines()[-1])["status"])
    client.tag(image, repository, tag)  # Podman does not give it the tag that it is imported with
    return image


# ---------------------------------------------------------------------------------------- of a Debian suite


def debian_rootfs(archive: Path, version: int) -> None:
    """Write an archive of the Debian that has a version of GCC, which is /usr/bin/gcc in it; for root.

    Raises:
        OSError: when Debian's packages cannot be had.
    """
    command = ["mmdebstrap", "--mode=root", "--variant=essential", f"--include=gcc-{version},libc6-dev"]
    command += [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale")]
    command += ["--dpkgopt=force-unsafe-io"]  # which is quicker, and nobody needs it after a power cut
    command += [f"--customize-hook=ln -s gcc-{version} $1/usr/bin/gcc", SUITES[version], str(archive), DEBIAN]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr[-1000:])


# ------------------------------------------------------------------------------------ of this machine's compiler


def host_rootfs(
    archive: Path, compiler: str = "gcc", *, busybox: bool = False, without: str = "", machine: int = 0
) -> None:
    """Write an archive of this machine's C compiler and of what it needs, some 80 MB in a second.

    Args:
        archive: the file to write.
        compiler: the compiler, which is /usr/bin/gcc in the archive; "" for none.
        busybox: have busybox in place of this machine's shell and tools.
        without: a tool that is left out.
        machine: the number, in ELF files, of the machine that the shell is said to be for; 0 for this one.
    """
    with tarfile.open(archive, "w") as tar:
        files = _Files(tar)
        for folder in ("/dev", "/etc", "/proc", "/sys"):
            files.folder(folder)
        files.folder("/tmp", 0o1777)
        if busybox:
            files.add_as("/bin/busybox", str(shutil.which("busybox")))
            for tool in (*TOOLS, "setsid"):
                files.link(f"/bin/{tool}", "busybox")
        else:
            for tool in TOOLS:
                if tool == "sh" and machine:
                    files.foreign(str(shutil.which(tool)), machine)
                elif tool != without:
                    files.program(str(shutil.which(tool)))
        if compiler:
            for path in _parts(compiler):
                files.program(path)
            files.link("/usr/bin/gcc", os.path.realpath(str(shutil.which(compiler))))


class _Files:
    """Files of this machine on their way into an archive, each once and where it lies here."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._have = {"/"}

    def program(self, path: str) -> None:
        """Add a file, and the shared libraries that it needs."""
        if not self._add(path):
            return
        with open(os.path.realpath(path), "rb") as file:
            if file.read(4) != b"\x7fELF":
                return
        loaded = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", loaded):
            self._add(library)

    def add_as(self, name: str, path: str) -> None:
        """Add a file under another name."""
        self._parents(name)
        self._tar.add(path, name)

    def foreign(self, path: str, machine: int) -> None:
        """Add a program that says that it is for another machine."""
        self._have.add(path)
        self._parents(path)
        with open(path, "rb") as file:
            content = bytearray(file.read())
        content[18:20] = machine.to_bytes(2, sys.byteorder)  # e_machine
        member = self._tar.gettarinfo(os.path.realpath(path), path)
        self._tar.addfile(member, io.BytesIO(content))

    def folder(self, name: str, mode: int = 0o755) -> None:
        """Add an empty folder."""
        if name not in self._have:
            self._have.add(name)
            self._parents(name)
            if os.path.islink(name):  # /lib on systems that have it below /usr
                self._tar.add(name)
                self.folder(os.path.realpath(name))
            else:
                member = tarfile.TarInfo(name)
                member.type, member.mode = tarfile.DIRTYPE, mode
                self._tar.addfile(member)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link, unless there is something of that name."""
        if name not in self._have:
            self._have.add(name)
            self._parents(name)
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            self._tar.addfile(member)

    def _add(self, path: str) -> bool:
        path = os.path.normpath(path) if not os.path.islink(os.path.dirname(path)) else path
        if path in self._have:
            return False
        self._have.add(path)
        self._parents(path)
        self._tar.add(path, recursive=False)
        if os.path.islink(path):
            self._add(os.path.join(os.path.dirname(path), os.readlink(path)))
        return True

    def _parents(self, path: str) -> None:
        parent = os.path.dirname(path)
        if parent not in self._have:
            self.folder(parent)


def _parts(compiler: str) -> Iterator[str]:
    """Give the files that compiling and linking a program takes."""
    yield str(shutil.which(compiler))
    for name in ("cc1", "collect2", "lto1", "lto-wrapper", "as", "ld"):
        yield str(shutil.which(_ask(compiler, f"-print-prog-name={name}").strip()))
    yield _ask(compiler, "-print-file-name=liblto_plugin.so").strip()
    includes = "".join(f"#include <{name}>\n" for name in HEADERS)
    for level in ("-O0", "-O2"):  # with which headers include others
        yield from re.findall(r"/\S+", _ask(compiler, "-M", level, "-D_GNU_SOURCE", "-x", "c", "-", stdin=includes))
    command = ("-Wl,--trace", "-x", "c", "-", "-lm", "-o", os.devnull)
    for line in _ask(compiler, *command, stdin="int main(void) { return 0; }").splitlines():
        if line.startswith("/") and not line.startswith("/tmp/"):
            yield os.path.normpath(line)


def _ask(compiler: str, *question: str, stdin: str = "") -> str:
    return subprocess.run([compiler, *question], input=stdin, capture_output=True, text=True, check=True).stdout
