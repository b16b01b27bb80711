"""seccomp: a process gives up starting processes, opening sockets and touching what is others', for good.

A filter of the kernel's (seccomp(2)): what is refused fails with EPERM, and a thread, which clone makes, too, is still
one. Numbers are from <asm/unistd.h> of the two architectures that Trivet is run on; elsewhere nothing is given up. What
Linux has learned since 5.0 has the same number everywhere and is said not to be there: libraries take what was before.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from agent.subagents.cage.landlock import never_gain_rights

_POINTER_BYTES: Final = 8  # a 32-bit program on a 64-bit kernel has other numbers
_STEP_BYTES: Final = 8
_SET_SECCOMP: Final = 22  # <linux/prctl.h>
_FILTER_MODE: Final = 2

_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4  # in seccomp_data
_FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT, _THIRD_ARGUMENT_AT = 16, 24, 32  # their low halves
_IS_THREAD: Final = 0x10000  # CLONE_THREAD
_NEWER: Final = 424
"""From this number on: pidfds, io_uring, clone3, new mounts, changing attributes by path, and what will come."""
_OF_FCNTL: Final = (8, 10, 15, 1024, 1026, 1031)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX let the kernel send somebody a signal; a lease makes others wait who open the file;
F_NOTIFY watches a folder; F_SETPIPE_SZ takes of what all pipes of a user may hold together."""
_OF_IOCTL: Final = (0x8901, 0x8902)
"""FIOSETOWN and SIOCSPGRP let the kernel send somebody a signal, too."""
_OF_PRCTL: Final = (1,)
"""PR_SET_PDEATHSIG: who takes it back outlives its parent."""
_CUTTING: Final = 0x200  # O_TRUNC
_WAYS: Final = 3  # the bits by which a file is opened to be read (0), written (1), both (2) or neither (3)
_SECOND_FACE: Final = 0x40000000  # the numbers of x32 on x86_64


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of one architecture. Not every one has all of them.

    opening       open openat, each with where its flags stand
    on_itself     kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo prlimit64
    sockets       socket socketpair connect bind listen accept accept4 sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg
                  shutdown setsockopt getsockopt getsockname getpeername: the pipes to its parent may be sockets, which
                  carry more than bytes
    starts        fork vfork execve execveat
    others        ptrace process_vm_readv process_vm_writev tkill perf_event_open kcmp, setpriority sched_setparam
                  sched_setscheduler sched_setaffinity sched_setattr ioprio_set migrate_pages move_pages
    lasting       what stays when the process is gone, or is counted as nobody's memory: shmget shmat shmctl semget
                  semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink add_key request_key keyctl
                  memfd_create; or of which a user, or the whole machine, has a number only: inotify_init inotify_init1
                  io_setup
    system        mount umount2 pivot_root chroot unshare setns bpf userfaultfd name_to_handle_at open_by_handle_at
                  fanotify_init quotactl swapon swapoff acct reboot syslog personality sethostname setdomainname
                  settimeofday clock_settime adjtimex clock_adjtime init_module delete_module finit_module kexec_load
                  kexec_file_load lookup_dcookie vhangup, iopl ioperm modify_ldt uselib
    attributes    which Landlock leaves to whoever owns a file: chmod fchmodat chown lchown fchownat setxattr lsetxattr
                  removexattr lremovexattr utime utimes futimesat utimensat inotify_add_watch; fchmod fchown fsetxattr
                  fremovexattr, for which it is enough to have the file open, to read it; getxattr lgetxattr listxattr
                  llistxattr; and truncate, of which Landlock knows since Linux 6.2
    """

    audited_as: int
    clone: int
    fcntl: int
    ioctl: int
    prctl: int
    opening: tuple[tuple[int, int], ...]
    on_itself: tuple[int, ...]
    sockets: tuple[int, ...]
    starts: tuple[int, ...]
    others: tuple[int, ...]
    lasting: tuple[int, ...]
    system: tuple[int, ...]
    attributes: tuple[int, ...]

    @property
    def refused(self) -> tuple[int, ...]:
        """What never works."""
        return (*self.sockets, *self.starts, *self.others, *self.lasting, *self.system, *self.attributes)


_MACHINES: Final[Mapping[str, _Machine]] = MappingProxyType(
    {
        "x86_64": _Machine(
            audited_as=0xC000003E,
            clone=56,
            fcntl=72,
            ioctl=16,
            prctl=157,
            opening=((2, _SECOND_ARGUMENT_AT), (257, _THIRD_ARGUMENT_AT)),
            on_itself=(62, 234, 129, 297, 302),
            sockets=(41, 53, 42, 49, 50, 43, 288, 44, 46, 307, 45, 47, 299, 48, 54, 55, 51, 52),
            starts=(57, 58, 59, 322),
            others=(101, 310, 311, 200, 298, 312, 141, 142, 144, 203, 314, 251, 256, 279),
            lasting=(29, 30, 31, 64, 65, 220, 66, 68, 69, 70, 71, 240, 241, 248, 249, 250, 319, 253, 294, 206),
            system=(
                *(165, 166, 155, 161, 272, 308, 321, 323, 303, 304, 300, 179, 167, 168, 163, 169, 103, 135, 170, 171),
                *(164, 227, 159, 305, 175, 176, 313, 246, 320, 212, 153, 172, 173, 154, 134),
            ),
            attributes=(
                *(90, 268, 92, 94, 260, 188, 189, 197, 198, 132, 235, 261),
                *(280, 254, 91, 93, 190, 199, 191, 192, 194, 195, 76),
            ),
        ),
        "aarch64": _Machine(
            audited_as=0xC00000B7,
            clone=220,
            fcntl=25,
            ioctl=29,
            prctl=167,
            opening=((56, _THIRD_ARGUMENT_AT),),
            on_itself=(129, 131, 138, 240, 261),
            sockets=(198, 199, 203, 200, 201, 202, 242, 206, 211, 269, 207, 212, 243, 210, 208, 209, 204, 205),
            starts=(221, 281),
            others=(117, 270, 271, 130, 241, 272, 140, 118, 119, 122, 274, 30, 238, 239),
            lasting=(194, 196, 195, 190, 193, 192, 191, 186, 189, 188, 187, 180, 181, 217, 218, 219, 279, 26, 0),
            system=(
                *(40, 39, 41, 51, 97, 268, 280, 282, 264, 265, 262, 60, 224, 225, 89, 142, 116, 92, 161, 162),
                *(170, 112, 171, 266, 105, 106, 273, 104, 294, 18, 58),
            ),
            attributes=(53, 54, 5, 6, 14, 15, 88, 27, 52, 55, 7, 16, 8, 9, 11, 12, 45),
        ),
    }
)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def is_known_here() -> bool:
    """True where there is a filter for this system and architecture."""
    return sys.platform == "linux" and os.uname().machine in _MACHINES and struct.calcsize("P") == _POINTER_BYTES


def give_up_processes_and_sockets() -> bool:
    """No process, no socket, no signal to others and no foreign file's mode or owner from now on. False where the
    kernel does not lend that.

    It holds this thread and those it starts: call it before there are any.
    """
    if not is_known_here():
        return False
    steps = b"".join(struct.pack("=HBBI", *step) for step in _steps(_MACHINES[os.uname().machine], os.getpid()))
    try:
        never_gain_rights()
    except OSError:
        return False
    program = _Program(len(steps) // _STEP_BYTES, steps)
    return bool(_LIBC.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0)


def _steps(machine: _Machine, own_pid: int) -> Iterator[tuple[int, int, int, int]]:
    """The filter: operation, how far to jump if it holds and if not, operand."""
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    yield (_LOAD, 0, 0, _ARCHITECTURE_AT)
    yield (_IF_EQUAL, 1, 0, machine.audited_as)
    yield refuse
    yield (_LOAD, 0, 0, _NUMBER_AT)
    yield (_IF_AT_LEAST, 0, 1, _SECOND_FACE)
    yield refuse
    yield (_IF_AT_LEAST, 0, 1, _NEWER)
    yield (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    for number in machine.refused:
        yield (_IF_EQUAL, 0, 1, number)
        yield refuse
    yield (_IF_EQUAL, 0, 4, machine.clone)
    yield (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
    yield (_IF_ANY_BIT, 0, 1, _IS_THREAD)
    yield (_RETURN, 0, 0, _ALLOW)
    yield refuse
    for number in machine.on_itself:
        yield (_IF_EQUAL, 0, 5, number)
        yield (_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
        yield (_IF_EQUAL, 1, 0, 0)
        yield (_IF_EQUAL, 0, 1, own_pid)
        yield (_RETURN, 0, 0, _ALLOW)
        yield refuse
    for number, flags_at in machine.opening:  # who cuts a file has to say that he writes, or Landlock might not hear it
        yield (_IF_EQUAL, 0, 7, number)
        yield (_LOAD, 0, 0, flags_at)
        yield (_IF_ANY_BIT, 0, 4, _CUTTING)
        yield (_AND, 0, 0, _WAYS)
        yield (_IF_EQUAL, 1, 0, 0)
        yield (_IF_EQUAL, 0, 1, _WAYS)
        yield refuse
        yield (_RETURN, 0, 0, _ALLOW)
    for number, argument_at, asked in (
        (machine.fcntl, _SECOND_ARGUMENT_AT, _OF_FCNTL),
        (machine.ioctl, _SECOND_ARGUMENT_AT, _OF_IOCTL),
        (machine.prctl, _FIRST_ARGUMENT_AT, _OF_PRCTL),
    ):
        yield (_IF_EQUAL, 0, 2 + 2 * len(asked), number)
        yield (_LOAD, 0, 0, argument_at)
        for each in asked:
            yield (_IF_EQUAL, 0, 1, each)
            yield refuse
        yield (_RETURN, 0, 0, _ALLOW)
    yield (_RETURN, 0, 0, _ALLOW)
