"""seccomp: a process gives up starting processes, opening sockets and touching what is others', for good.

A filter of the kernel's (seccomp(2)): what is refused fails with EPERM, and a thread, which clone makes, too, is still
one. Numbers are from <asm/unistd.h> of the two architectures that Trivet is run on; elsewhere nothing is given up.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from agent.subagents.cage.landlock import never_gain_rights

_POINTER_BYTES: Final = 8  # a 32-bit program on a 64-bit kernel has other numbers
_STEP_BYTES: Final = 8
_SET_SECCOMP: Final = 22  # <linux/prctl.h>
_FILTER_MODE: Final = 2

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # in struct seccomp_data, low half first
_IS_THREAD: Final = 0x10000  # CLONE_THREAD
_CLONE3: Final = 435  # its flags are in memory, where no filter looks; without it libc takes clone
_EVERYWHERE: Final = (424, 425, 434, 438, 452, 463, 466)
"""pidfd_send_signal, io_uring_setup, pidfd_open, pidfd_getfd, fchmodat2, setxattrat, removexattrat."""
_SECOND_FACE: Final = 0x40000000  # the numbers of x32 on x86_64


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of one architecture.

    `on_itself`: kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, prlimit64. `sockets`: socket. `starts`: fork, vfork,
    execve, execveat. `others`: ptrace, process_vm_readv, process_vm_writev, tkill, perf_event_open. `system`: mount,
    unshare, setns, bpf, keyctl, open_by_handle_at. `attributes`, which Landlock leaves to whoever owns a file: chmod,
    fchmodat, chown, lchown, fchownat, setxattr, lsetxattr, removexattr, lremovexattr, utime, utimes, futimesat,
    utimensat, inotify_add_watch; fchmod and its like need an open file. Not every architecture has all of them.
    """

    audited_as: int
    clone: int
    on_itself: tuple[int, ...]
    sockets: tuple[int, ...]
    starts: tuple[int, ...]
    others: tuple[int, ...]
    system: tuple[int, ...]
    attributes: tuple[int, ...]

    @property
    def refused(self) -> tuple[int, ...]:
        """What never works."""
        return (*self.sockets, *self.starts, *self.others, *self.system, *self.attributes, *_EVERYWHERE)


_MACHINES: Final[Mapping[str, _Machine]] = MappingProxyType(
    {
        "x86_64": _Machine(
            audited_as=0xC000003E,
            clone=56,
            on_itself=(62, 234, 129, 297, 302),
            sockets=(41,),
            starts=(57, 58, 59, 322),
            others=(101, 310, 311, 200, 298),
            system=(165, 272, 308, 321, 250, 304),
            attributes=(90, 268, 92, 94, 260, 188, 189, 197, 198, 132, 235, 261, 280, 254),
        ),
        "aarch64": _Machine(
            audited_as=0xC00000B7,
            clone=220,
            on_itself=(129, 131, 138, 240, 261),
            sockets=(198,),
            starts=(221, 281),
            others=(117, 270, 271, 130, 241),
            system=(40, 97, 268, 280, 219, 265),
            attributes=(53, 54, 5, 6, 14, 15, 88, 27),
        ),
    }
)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def is_known_here() -> bool:
    """True where there is a filter for this architecture."""
    return os.uname().machine in _MACHINES and struct.calcsize("P") == _POINTER_BYTES


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
    yield (_IF_EQUAL, 0, 1, _CLONE3)
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
    yield (_RETURN, 0, 0, _ALLOW)
