"""A small disk for caches, which can be filled without harm to anybody.

It is a tmpfs in a mount namespace of this process and its children: nobody else sees it, and it goes when they do. Who
is not root may have one inside a user namespace, where the system allows that.
"""

import ctypes
import os
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_NOSUID, _MS_NODEV = 2, 4
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def have_mounts_of_our_own() -> str:
    """Move this process to a mount namespace of its own; return why that cannot be, "" when it could.

    To be called before there are threads: the kernel gives a user namespace to processes without any.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWNS) != 0:
        if _libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER) != 0:
            return _reason("no mount namespace")
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        except OSError as error:
            return f"no user namespace: {error.strerror}"
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return _reason("mounts cannot be kept private")
    return ""


def mount(folder: Path, size: int) -> str:
    """Put an empty disk of so many bytes on a folder; return why that cannot be, "" when it could."""
    options = f"size={size},mode=0700".encode()
    if _libc.mount(b"chaos", bytes(folder), b"tmpfs", _MS_NOSUID | _MS_NODEV, options) != 0:
        return _reason("no tmpfs")
    return ""


def unmount(folder: Path) -> None:
    """Take the disk away again, with all that is on it."""
    _libc.umount2(bytes(folder), 2)  # MNT_DETACH


def _reason(what: str) -> str:
    return f"{what}: {os.strerror(ctypes.get_errno())}"
