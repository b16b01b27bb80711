"""Restrictions that a process puts on itself for good, by Landlock, seccomp and capabilities. Light.

Facts from <linux/landlock.h> and landlock(7). The three system calls have the same numbers on every architecture."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_SET_NO_NEW_PRIVS: Final = 38  # <linux/prctl.h>

_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICES = 1 << 13, 1 << 14, 1 << 15
_EXECUTE, _WRITE_FILE = 1 << 0, 1 << 1
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICES
_PATH_ONLY: Final = getattr(os, "O_PATH", 0)  # only Linux has it
_FIRST: Final = (1 << 13) - 1  # everything that version 1 knows: execute, write, read, remove, make
_SINCE: Final = ((2, _REFER), (3, _TRUNCATE), (5, _DEVICES))
_TCP_SINCE: Final = 4
_TCP: Final = 0b11  # bind, connect
_SCOPES_SINCE: Final = 6
_SCOPES: Final = 0b11  # abstract sockets, signals

READING: Final = _READ_FILE | _READ_FOLDER
WRITING: Final = READING | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12 | _REFER | _TRUNCATE
"""Read, write, remove and make files, folders and symbolic links; no devices, no sockets, nothing executed."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    """Tell the kernel's version of Landlock, 0 for none: elsewhere than on Linux these numbers mean other calls."""
    if sys.platform != "linux":
        return 0
    return max(int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)), 0)


def restrict_with_landlock(
    *, readable: Iterable[Path], writable: Iterable[Path], executable: Iterable[Path] = (), has_network: bool = False
) -> None:
    """Restrict this thread, and every process it starts, to these places; a place with execute permission may be read
    as well. Raises `OSError`.

    Files that are open stay open, and other threads are not restricted: call it before there are any."""
    known = landlock_version()
    every = _FIRST | sum(right for since, right in _SINCE if known >= since)
    tcp = _TCP if known >= _TCP_SINCE and not has_network else 0
    wanted = _Ruleset(every, tcp, _SCOPES if known >= _SCOPES_SINCE else 0)
    rules = _done(_LIBC.syscall(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(_size(known)), 0))
    try:
        for places, rights in ((readable, READING), (writable, WRITING), (executable, READING | _EXECUTE)):
            for place in places:
                _allow(rules, place, rights & every)
        never_gain_rights()
        _done(_LIBC.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def never_gain_rights() -> None:
    """Prevent every program that this process executes from gaining rights. Raises `OSError`."""
    _done(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _size(known: int) -> int:
    """Return how many bytes of the ruleset structure this kernel version accepts: it refuses a longer one."""
    if known >= _SCOPES_SINCE:
        return ctypes.sizeof(_Ruleset)
    return _Ruleset.scopes.offset if known >= _TCP_SINCE else _Ruleset.tcp.offset


def _allow(rules: int, place: Path, rights: int) -> None:
    if not place.is_dir():
        rights &= _OF_A_FILE
    folder = os.open(place, _PATH_ONLY | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights, folder)
        _done(_LIBC.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(folder)


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# seccomp: a process gives up the system calls it does not need, for good. Two filters, of one table of numbers.
#
# A sub-agent gives up starting processes, opening sockets and touching others' processes and files. A command keeps
# processes and the sockets of an empty network, and gives up the rest of it.
#
# A filter of the kernel's (seccomp(2)): what is refused fails with EPERM, and a thread, which clone makes, too, is
# still one. Numbers are from <asm/unistd.h> of the two architectures that Trivet is run on; elsewhere nothing is
# given up. What Linux has learned since 5.0 has the same number everywhere and is said not to be there: libraries
# take what was before.


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
_IS_ON_SAME_FILES: Final = 0x400  # CLONE_FILES
_NAMESPACES: Final = 0x7E020000  # CLONE_NEWUSER and its like
_FAMILIES: Final = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: of these a network namespace of one's own holds all. A virtual machine's way
to its host (AF_VSOCK) is in no namespace."""
_NEWER: Final = 424
"""From this number on: pidfds, io_uring, clone3, new mounts, changing attributes by path, and what will come."""
_OF_FCNTL: Final = (8, 10, 15, 1024, 1026, 1031)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX let the kernel send somebody a signal; a lease makes others wait who open the file;
F_NOTIFY watches a folder; F_SETPIPE_SZ takes of what all pipes of a user may hold together."""
_OF_IOCTL: Final = (0x8901, 0x8902, 0x5412)
"""FIOSETOWN and SIOCSPGRP let the kernel send somebody a signal, too; TIOCSTI types on somebody's terminal."""
_OF_PRCTL: Final = (1,)
"""PR_SET_PDEATHSIG: who takes it back outlives its parent."""
_OF_PRCTL_BY_COMMANDS: Final = (4,)
"""PR_SET_DUMPABLE: what a command holds open is counted by a process that may look."""
_CUTTING: Final = 0x200  # O_TRUNC
_WAYS: Final = 3  # the bits by which a file is opened to be read (0), written (1), both (2) or neither (3)
_SECOND_FACE: Final = 0x40000000  # the numbers of x32 on x86_64


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of one architecture. Not every one has all of them.

    opening       open openat, each with the place of its flags
    on_itself     kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo prlimit64
    opens_socket  socket socketpair
    sockets       what is done with them: connect bind listen accept accept4 sendto sendmsg sendmmsg recvfrom recvmsg
                  recvmmsg shutdown setsockopt getsockopt getsockname getpeername: the pipes to its parent may be
                  sockets, which carry more than bytes
    starts        fork vfork execve execveat
    looks_into    others: ptrace process_vm_readv process_vm_writev perf_event_open kcmp migrate_pages move_pages
    others        tkill, setpriority sched_setparam sched_setscheduler sched_setaffinity sched_setattr ioprio_set: in a
                  process namespace others are its own
    lasting       what stays when the process is gone, or is counted as nobody's memory: shmget shmat shmctl semget
                  semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink add_key request_key keyctl
                  memfd_create; or of which a user, or the whole machine, has a number only: inotify_init inotify_init1
                  io_setup
    system        mount umount2 pivot_root chroot unshare setns bpf userfaultfd name_to_handle_at open_by_handle_at
                  fanotify_init quotactl swapon swapoff acct reboot syslog personality sethostname setdomainname
                  settimeofday clock_settime adjtimex clock_adjtime init_module delete_module finit_module kexec_load
                  kexec_file_load lookup_dcookie vhangup, iopl ioperm modify_ldt uselib
    attributes    which Landlock leaves to the owner of a file: chmod fchmodat chown lchown fchownat setxattr lsetxattr
                  removexattr lremovexattr utime utimes futimesat utimensat inotify_add_watch; fchmod fchown fsetxattr
                  fremovexattr, for which it is enough to have the file open, to read it; getxattr lgetxattr listxattr
                  llistxattr; and truncate, of which Landlock knows since Linux 6.2
    """

    audited_as: int
    clone: int
    fallocate: int
    fcntl: int
    ioctl: int
    prctl: int
    opening: tuple[tuple[int, int], ...]
    on_itself: tuple[int, ...]
    opens_socket: tuple[int, ...]
    sockets: tuple[int, ...]
    starts: tuple[int, ...]
    looks_into: tuple[int, ...]
    others: tuple[int, ...]
    lasting: tuple[int, ...]
    system: tuple[int, ...]
    attributes: tuple[int, ...]

    @property
    def refused(self) -> tuple[int, ...]:
        """List the system calls that every filter refuses."""
        return (*self.looks_into, *self.lasting, *self.system)

    @property
    def refused_to_children(self) -> tuple[int, ...]:
        """List the system calls that are allowed for commands but refused to a child of ours."""
        return (*self.opens_socket, *self.sockets, *self.starts, *self.others, *self.attributes)


_MACHINES: Final[Mapping[str, _Machine]] = MappingProxyType(
    {
        "x86_64": _Machine(
            audited_as=0xC000003E,
            clone=56,
            fallocate=285,
            fcntl=72,
            ioctl=16,
            prctl=157,
            opening=((2, _SECOND_ARGUMENT_AT), (257, _THIRD_ARGUMENT_AT)),
            on_itself=(62, 234, 129, 297, 302),
            opens_socket=(41, 53),
            sockets=(42, 49, 50, 43, 288, 44, 46, 307, 45, 47, 299, 48, 54, 55, 51, 52),
            starts=(57, 58, 59, 322),
            looks_into=(101, 310, 311, 298, 312, 256, 279),
            others=(200, 141, 142, 144, 203, 314, 251),
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
            fallocate=47,
            fcntl=25,
            ioctl=29,
            prctl=167,
            opening=((56, _THIRD_ARGUMENT_AT),),
            on_itself=(129, 131, 138, 240, 261),
            opens_socket=(198, 199),
            sockets=(203, 200, 201, 202, 242, 206, 211, 269, 207, 212, 243, 210, 208, 209, 204, 205),
            starts=(221, 281),
            looks_into=(117, 270, 271, 241, 272, 238, 239),
            others=(130, 140, 118, 119, 122, 274, 30),
            lasting=(194, 196, 195, 190, 193, 192, 191, 186, 189, 188, 187, 180, 181, 217, 218, 219, 279, 26, 0),
            system=(
                *(40, 39, 41, 51, 97, 268, 280, 282, 264, 265, 262, 60, 224, 225, 89, 142, 116, 92, 161, 162),
                *(170, 112, 171, 266, 105, 106, 273, 104, 294, 18, 58),
            ),
            attributes=(53, 54, 5, 6, 14, 15, 88, 27, 52, 55, 7, 16, 8, 9, 11, 12, 45),
        ),
    }
)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def is_machine_known() -> bool:
    """Tell whether there is a filter for this system and architecture."""
    return sys.platform == "linux" and os.uname().machine in _MACHINES and struct.calcsize("P") == _POINTER_BYTES


def give_up_processes_and_sockets() -> bool:
    """Give up, from now on, starting processes, opening sockets, signalling others and changing the mode or owner of
    others' files. Return False where the kernel has no such filter.

    The filter holds for this thread and those it starts: call it before there are any."""
    if not is_machine_known():
        return False
    steps = _packed(_for_a_child(_MACHINES[os.uname().machine], os.getpid()))
    try:
        never_gain_rights()
    except OSError:
        return False
    program = _Program(len(steps) // _STEP_BYTES, steps)
    return bool(_LIBC.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0)


def filter_for_commands() -> bytes:
    """Build what bubblewrap is to load for a command, where `is_known_here`."""
    return _packed(_for_a_command(_MACHINES[os.uname().machine]))


_Step = tuple[int, int, int, int]
"""Operation, how far to jump if it holds and if not, operand."""

_ALLOWED: Final[_Step] = (_RETURN, 0, 0, _ALLOW)
_REFUSED: Final[_Step] = (_RETURN, 0, 0, _REFUSE | errno.EPERM)


def _packed(steps: Iterator[_Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _for_a_child(machine: _Machine, own_pid: int) -> Iterator[_Step]:
    yield from _for_everybody(machine)
    for number in machine.refused_to_children:
        yield from _when(number, [_REFUSED])
    started: list[_Step] = [(_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_IF_ANY_BIT, 0, 1, _IS_THREAD), _ALLOWED, _REFUSED]
    yield from _when(machine.clone, started)
    for number in machine.on_itself:
        yield from _when(number, _unless_one_of(_FIRST_ARGUMENT_AT, (0, own_pid)))
    for number, flags_at in machine.opening:  # to cut a file it must be opened for writing, which Landlock checks
        asked: list[_Step] = [
            (_LOAD, 0, 0, flags_at),
            *((_IF_ANY_BIT, 0, 4, _CUTTING), (_AND, 0, 0, _WAYS), (_IF_EQUAL, 1, 0, 0), (_IF_EQUAL, 0, 1, _WAYS)),
            *(_REFUSED, _ALLOWED),
        ]
        yield from _when(number, asked)
    yield from _when(machine.prctl, _if_one_of(_FIRST_ARGUMENT_AT, _OF_PRCTL))
    yield _ALLOWED


def _for_a_command(machine: _Machine) -> Iterator[_Step]:
    """Build the filter of a command, whose processes run in a namespace and are counted from outside. None may enter
    another namespace, no thread may have a file table other than its process's, and no file may get room beyond its
    end, because nobody would count that."""
    yield from _for_everybody(machine)
    started: list[_Step] = [
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        *((_IF_ANY_BIT, 3, 0, _NAMESPACES), (_IF_ANY_BIT, 0, 1, _IS_THREAD), (_IF_ANY_BIT, 0, 1, _IS_ON_SAME_FILES)),
        *(_ALLOWED, _REFUSED),
    ]
    yield from _when(machine.clone, started)
    for number in machine.opens_socket:
        yield from _when(number, _unless_one_of(_FIRST_ARGUMENT_AT, _FAMILIES))
    yield from _when(machine.fallocate, _unless_one_of(_SECOND_ARGUMENT_AT, (0,)))
    yield from _when(machine.prctl, _if_one_of(_FIRST_ARGUMENT_AT, _OF_PRCTL_BY_COMMANDS))
    yield _ALLOWED


def _for_everybody(machine: _Machine) -> Iterator[_Step]:
    """Yield the steps with which every filter begins."""
    yield (_LOAD, 0, 0, _ARCHITECTURE_AT)
    yield (_IF_EQUAL, 1, 0, machine.audited_as)
    yield _REFUSED
    yield (_LOAD, 0, 0, _NUMBER_AT)
    yield (_IF_AT_LEAST, 0, 1, _SECOND_FACE)
    yield _REFUSED
    yield (_IF_AT_LEAST, 0, 1, _NEWER)
    yield (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    for number in machine.refused:
        yield from _when(number, [_REFUSED])
    for number, asked in ((machine.fcntl, _OF_FCNTL), (machine.ioctl, _OF_IOCTL)):
        yield from _when(number, _if_one_of(_SECOND_ARGUMENT_AT, asked))


def _when(number: int, steps: Sequence[_Step]) -> Iterator[_Step]:
    """Yield these steps for one system call; the last of them must be an answer."""
    yield (_IF_EQUAL, 0, len(steps), number)
    yield from steps


def _if_one_of(argument_at: int, values: Sequence[int]) -> list[_Step]:
    """Refuse these values of an argument."""
    return [*_looking_for(argument_at, values), _ALLOWED, _REFUSED]


def _unless_one_of(argument_at: int, values: Sequence[int]) -> list[_Step]:
    """Refuse all other values of an argument."""
    return [*_looking_for(argument_at, values), _REFUSED, _ALLOWED]


def _looking_for(argument_at: int, values: Sequence[int]) -> Iterator[_Step]:
    """Skip the next step if the argument is one of these."""
    yield (_LOAD, 0, 0, argument_at)
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield (_IF_EQUAL, left, 0, value)


# Capabilities: what makes root more than others. A program of root's gives up all of them but the one for files.
#
# Without them it sets no clock and no host name, touches no process that has more, which its parent does, and so
# reads neither its environment nor its memory. Facts from <linux/capability.h> and capabilities(7).


_VERSION: Final = 0x20080522
_KEPT: Final = 1 << 1
"""CAP_DAC_OVERRIDE: the files of a volume that was mounted for root may be anybody's."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Half(ctypes.Structure):
    """32 of them."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def give_up_capabilities() -> bool:
    """Drop all capabilities of this thread and those it starts, except the one for files if it was there. Return False
    where that fails, and on systems other than Linux, which have no capabilities."""
    if sys.platform != "linux":
        return False
    header, sets = _Header(_VERSION, 0), (_Half * 2)()
    if _LIBC.capget(ctypes.byref(header), sets) != 0:
        return False
    left = sets[0].permitted & _KEPT
    sets[0], sets[1] = _Half(left, left, 0), _Half(0, 0, 0)
    return bool(_LIBC.capset(ctypes.byref(header), sets) == 0)
