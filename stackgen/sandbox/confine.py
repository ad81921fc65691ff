"""Make everything read-only but one folder, give up every privilege, and become a command.

The text of this file runs as a script in namespaces that ``unshare`` has just made, never in those
of the host: ``python confine.py FOLDER BYTES NETWORK COMMAND...``. Standard library alone, no
import of ours. What it cannot do, it skips: the supervisor reports which limits hold.

FOLDER, and shared memory, become empty file systems in memory of at most BYTES each, that go with
the namespaces; where they cannot, nothing runs, because they are emptied after each command. Not
the stack alone becomes read-only: its files are hard links into a cache, and into other stacks.

NETWORK is ``own-network`` where the network is not the host's: processes in it can then talk to
each other on the loopback interface, as they can in containers.

The file ``sockets`` in FOLDER names sockets that are hidden, each followed by a zero byte: they can
be connected to whatever is read-only, from any network, and lead to programs that are not confined.
"""

# Paths are strings here, as in supervisor.py.
# ruff: noqa: PTH112, PTH116, PTH118, PTH123

import contextlib
import ctypes
import fcntl
import os
import re
import socket
import stat
import struct
import sys

# From <sys/mount.h>
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096
# Flags of a mount point that must stay: only their owner may remove them.
MOUNT_FLAGS = {
    "nosuid": NOSUID,
    "nodev": NODEV,
    "noexec": NOEXEC,
    "noatime": 1 << 10,
    "nodiratime": 1 << 11,
    "relatime": 1 << 21,
}
STRICTATIME = 1 << 24
# From <linux/prctl.h>
CAPBSET_DROP, SET_NO_NEW_PRIVS = 24, 38
SET_INTERFACE_FLAGS, UP = 0x8914, 1  # from <linux/sockios.h> and <linux/if.h>
CAPABILITY_VERSION = 0x20080522  # the third, of <linux/capability.h>
SHARED_MEMORY = "/dev/shm"  # noqa: S108 # a fresh one is mounted there

LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> bool:
    """Mount, and return whether that worked."""
    words = [os.fsencode(word) or None for word in (source, target, kind, options)]
    source_, target_, kind_, options_ = words
    return bool(LIBC.mount(source_, target_, kind_, ctypes.c_ulong(flags), options_) == 0)


def mount_points() -> "list[tuple[str, int]]":
    """Return each mount point with the flags that must stay."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            point, options = line.split()[4:6]
            path = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), point)
            flags = [MOUNT_FLAGS.get(option, 0) for option in options.split(",")]
            timed = any("atime" in option for option in options.split(","))
            found.append((path, sum(flags) | (0 if timed else STRICTATIME)))
    return found


def hide_disks() -> None:
    """Hide block devices: their owner may write below every file system."""
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            try:
                found = stat.S_ISBLK(os.lstat(path).st_mode)
            except OSError:  # gone meanwhile, as terminals and loop devices go
                continue
            if found:
                mount("/dev/null", path, "", BIND)


def hide_sockets(names: "list[str]") -> None:
    """Hide sockets of services, such as a container engine or a session bus."""
    for name in names:
        try:
            found = stat.S_ISSOCK(os.stat(name).st_mode)
        except OSError:  # out of our reach
            continue
        if found:
            mount("/dev/null", name, "", BIND)


def sockets_in(folder: str) -> "list[str]":
    """Return the names in a folder's list of sockets."""
    try:
        with open(os.path.join(folder, "sockets"), "rb") as file:
            return [os.fsdecode(name) for name in file.read().split(b"\0") if name]
    except FileNotFoundError:
        return []


def raise_loopback() -> None:
    """Enable the loopback interface of this namespace."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
        fcntl.ioctl(any_one, SET_INTERFACE_FLAGS, struct.pack("16sh22x", b"lo", UP))


def give_up_privileges() -> None:
    """Drop all capabilities, so that the command has none under any user."""
    for capability in range(64):
        LIBC.prctl(CAPBSET_DROP, capability, 0, 0, 0)
    none = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 of each
    LIBC.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), none)
    LIBC.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def main(folder: str, most_bytes: str, network: str, command: "list[str]") -> None:
    """Do it."""
    size = ",size=" + most_bytes
    sockets = sockets_in(folder)
    # As the list of mounts names them: a folder that a link leads to has another name there.
    own = {os.path.realpath(folder): "0700", os.path.realpath(SHARED_MEMORY): "1777"}
    for path, mode in own.items():
        mounted = mount("tmpfs", path, "tmpfs", NOSUID | NODEV, "mode=" + mode + size)
        if not mounted and os.path.isdir(path):
            sys.exit(path + ": " + os.strerror(ctypes.get_errno()))
    if os.geteuid() == 0:
        hide_disks()
    hide_sockets(sockets + [path for path, _ in mount_points()])
    for path, flags in mount_points():
        if path not in own:
            mount("", path, "", REMOUNT | BIND | RDONLY | flags)
    if network == "own-network":
        raise_loopback()
    give_up_privileges()
    os.execv(command[0], command)  # noqa: S606 # becoming the command is the point


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
