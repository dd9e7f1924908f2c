"""What the parsing process gives up before it reads the first file. None of it can be undone.

On Linux, Landlock limits which files it can open, and a seccomp filter refuses sockets, other
programs and writing. Both work without privileges. Elsewhere, and on kernels without them, only
the bounds on time and, on Linux, memory remain.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

TIME, MEMORY, FILES, CALLS = "time", "memory", "files", "system calls"

_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom")
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2


def confine(readable: Iterable[Path]) -> list[str]:
    """Give up every right but reading these files and folders. Returns the active bounds."""
    active = []
    if hasattr(signal, "setitimer"):
        active.append(TIME)
    if Memory.is_bounded():
        active.append(MEMORY)
    if sys.platform != "linux":
        return active
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return active
    if restrict_files(libc, [*readable, *program_files()]):
        active.append(FILES)
    if restrict_calls(libc):
        active.append(CALLS)
    return active


# -- time and memory ---------------------------------------------------------


def limit_cpu(seconds: float) -> None:
    """Kill the process after this much CPU time from now. 0 removes the limit.

    The default action of the signal ends the process even in a loop inside a C library.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


class Memory:
    """The memory of this process, and how much more it may use."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._page = 1
        if self.is_bounded():
            # Opened now: later, the process may not open it any more.
            self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            self._page = os.sysconf("SC_PAGE_SIZE")

    @staticmethod
    def is_bounded() -> bool:
        return sys.platform == "linux" and Path("/proc/self/statm").exists()

    def limit_growth(self, size: int, *, for_good: bool = False) -> None:
        """Let allocations fail that would add more than `size` bytes to what is used now.

        With `for_good`, not even code of an attacker can raise the limit.
        """
        if self._file is None:
            return
        import resource

        total = self._usage() + size
        _, ceiling = resource.getrlimit(resource.RLIMIT_DATA)
        if ceiling != resource.RLIM_INFINITY:
            total = min(total, ceiling)
        resource.setrlimit(resource.RLIMIT_DATA, (total, total if for_good else ceiling))

    def _usage(self) -> int:
        """The memory that only this process uses, in bytes."""
        assert self._file is not None
        return int(os.pread(self._file, 100, 0).split()[5]) * self._page


# -- files -------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights on files each version of Landlock knows; later versions know as many as 5."""
_CONNECT_AND_BIND = 0b11
_SIGNALS_AND_SOCKETS = 0b11


def program_files() -> list[Path]:
    """Where modules are loaded from, which importers do when the first file needs them."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, *_SYSTEM_FOLDERS]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [Path(folder) for folder in dict.fromkeys(folders) if folder]


def restrict_files(libc: Any, readable: Iterable[Path]) -> bool:
    """Allow opening only these files and folders, and only for reading."""
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = (1 << _RIGHTS_BY_VERSION.get(version, 16)) - 1
    attributes = struct.pack("=Q", rights)
    if version >= 4:
        attributes += struct.pack("=Q", _CONNECT_AND_BIND)
    if version >= 6:
        attributes += struct.pack("=Q", _SIGNALS_AND_SOCKETS)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            allow_reading(libc, ruleset, path)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def allow_reading(libc: Any, ruleset: int, path: Path) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # missing, or not for this user: then there is nothing to allow
    try:
        rights = _READ_FILE
        if path.is_dir():
            rights |= _READ_DIR
        rule = struct.pack("=Qi", rights, file)
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(file)


# -- system calls ------------------------------------------------------------

_LOAD, _EQUALS, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERROR, _ALLOW = 0x8000_0000, 0x0005_0000, 0x7FFF_0000
_REFUSE = _ERROR | errno.EACCES
# Offsets in what the filter sees; of an argument, the lower half on a little-endian machine.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32_CALLS = 0x4000_0000
_CLONE_THREAD = 0x0001_0000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_MISSING = ("clone3", "openat2", "io_uring_setup", "io_setup")
"""Calls whose arguments a filter cannot see. The C library falls back to older calls."""
_CONDITIONAL = ("open", "openat", "clone", "tgkill", "prlimit64")

Instruction = tuple[int, int, int, int]


def restrict_calls(libc: Any) -> bool:
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None or sys.byteorder != "little":
        return False
    program = _filter(architecture, os.getpid())
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # The structure of a filter: the number of instructions, padding, and their address.
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) == 0)


def _filter(architecture: Architecture, process: int) -> list[Instruction]:
    numbers = architecture.numbers
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32_CALLS),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
    ]
    # For some calls, it depends on an argument: refused or allowed if it has a bit or a value.
    for name, argument, test, value, if_so, if_not in (
        ("open", 1, _ANY_BIT, _WRITING, _REFUSE, _ALLOW),
        ("openat", 2, _ANY_BIT, _WRITING, _REFUSE, _ALLOW),
        ("clone", 0, _ANY_BIT, _CLONE_THREAD, _ALLOW, _REFUSE),
        ("tgkill", 0, _EQUALS, process, _ALLOW, _REFUSE),
        ("prlimit64", 0, _EQUALS, 0, _ALLOW, _REFUSE),
    ):
        if name in numbers:
            program += [
                (_EQUALS, 0, 4, numbers[name]),
                (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
                (test, 0, 1, value),
                (_RETURN, 0, 0, if_so),
                (_RETURN, 0, 0, if_not),
            ]
    for name, number in numbers.items():
        if name in _CONDITIONAL:
            continue
        verdict = _ERROR | errno.ENOSYS if name in _MISSING else _REFUSE
        program += [(_EQUALS, 0, 1, number), (_RETURN, 0, 0, verdict)]
    program.append((_RETURN, 0, 0, _ALLOW))
    return program


class Architecture(NamedTuple):
    audit: int
    """How the kernel names the architecture in a filter."""
    numbers: dict[str, int]


_X86_64 = """
    open=2 shmget=29 socket=41 connect=42 accept=43 sendto=44 sendmsg=46 bind=49 listen=50
    socketpair=53 clone=56 fork=57 vfork=58 execve=59 kill=62 msgget=68 truncate=76 rename=82
    mkdir=83 rmdir=84 creat=85 link=86 unlink=87 symlink=88 chmod=90 fchmod=91 chown=92
    fchown=93 lchown=94 ptrace=101 rt_sigqueueinfo=129 utime=132 mknod=133 pivot_root=155
    chroot=161 mount=165 umount2=166 init_module=175 setxattr=188 lsetxattr=189 fsetxattr=190
    removexattr=197 lremovexattr=198 fremovexattr=199 tkill=200 io_setup=206 tgkill=234
    utimes=235 mq_open=240 kexec_load=246 add_key=248 request_key=249 keyctl=250 openat=257
    mkdirat=258 mknodat=259 fchownat=260 futimesat=261 unlinkat=263 renameat=264 linkat=265
    symlinkat=266 fchmodat=268 unshare=272 utimensat=280 accept4=288 rt_tgsigqueueinfo=297
    perf_event_open=298 prlimit64=302 open_by_handle_at=304 sendmmsg=307 setns=308
    process_vm_readv=310 process_vm_writev=311 finit_module=313 renameat2=316 bpf=321
    execveat=322 userfaultfd=323
"""
_AARCH64 = """
    io_setup=0 setxattr=5 lsetxattr=6 fsetxattr=7 removexattr=14 lremovexattr=15
    fremovexattr=16 mknodat=33 mkdirat=34 unlinkat=35 symlinkat=36 linkat=37 renameat=38
    umount2=39 mount=40 pivot_root=41 truncate=45 chroot=51 fchmod=52 fchmodat=53 fchownat=54
    fchown=55 openat=56 utimensat=88 unshare=97 kexec_load=104 init_module=105 ptrace=117
    kill=129 tkill=130 tgkill=131 rt_sigqueueinfo=138 mq_open=180 msgget=186 shmget=194
    socket=198 socketpair=199 bind=200 listen=201 accept=202 connect=203 sendto=206
    sendmsg=211 add_key=217 request_key=218 keyctl=219 clone=220 execve=221
    rt_tgsigqueueinfo=240 perf_event_open=241 accept4=242 prlimit64=261 open_by_handle_at=265
    setns=268 sendmmsg=269 process_vm_readv=270 process_vm_writev=271 finit_module=273
    renameat2=276 bpf=280 execveat=281 userfaultfd=282
"""
# Linux gives new calls the same number on every architecture.
_COMMON = """
    pidfd_send_signal=424 io_uring_setup=425 open_tree=428 move_mount=429 fsopen=430
    pidfd_open=434 clone3=435 openat2=437 pidfd_getfd=438
"""


def _numbers(*tables: str) -> dict[str, int]:
    pairs = (call.split("=") for table in tables for call in table.split())
    return {name: int(number) for name, number in pairs}


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, _numbers(_X86_64, _COMMON)),
    "aarch64": Architecture(0xC00000B7, _numbers(_AARCH64, _COMMON)),
}
