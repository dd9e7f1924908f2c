"""The numbers of the Linux system calls that a parser must not make, by architecture.

The names are those of the kernel. A call that an architecture does not have is not listed for it.
"""

from __future__ import annotations

from typing import NamedTuple


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
