"""Landlock: a process gives up files, TCP and signals for good, without any right of its own. Linux 5.13 and newer.

Facts from <linux/landlock.h> and landlock(7). The three system calls have the same numbers on every architecture.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path
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


def version() -> int:
    """Tell the kernel's version of Landlock, 0 for none: elsewhere than on Linux these numbers mean other calls."""
    if sys.platform != "linux":
        return 0
    return max(int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)), 0)


def give_up(
    *,
    readable: Iterable[Path],
    writable: Iterable[Path],
    executable: Iterable[Path] = (),
    has_network: bool = False,
) -> None:
    """From now on this thread, and whatever it starts, reaches nothing but these places; what may be executed may be
    read. Raises `OSError`.

    What is open stays open, and other threads go on as before: call it before there are any.
    """
    known = version()
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
    """Nothing that this process executes has more rights than it has. Raises `OSError`."""
    _done(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _size(known: int) -> int:
    """How much of a ruleset's description this version reads: a longer one it would refuse."""
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
