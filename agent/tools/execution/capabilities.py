"""Capabilities: what makes root more than others. A program of root's gives up all of them but the one for files.

Without them it sets no clock and no host name, touches no process that has more, which its parent does, and so reads
neither its environment nor its memory. Facts from <linux/capability.h> and capabilities(7).
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_VERSION: Final = 0x20080522
_KEPT: Final = 1 << 1
"""CAP_DAC_OVERRIDE: the files of a volume that was mounted for root may be anybody's."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Half(ctypes.Structure):
    """32 of them."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def give_up_capabilities() -> bool:
    """This thread, and those it starts, have none but that for files, if they had that. False where it fails, and on
    systems other than Linux, which have none to give up."""
    if sys.platform != "linux":
        return False
    header, sets = _Header(_VERSION, 0), (_Half * 2)()
    if _LIBC.capget(ctypes.byref(header), sets) != 0:
        return False
    left = sets[0].permitted & _KEPT
    sets[0], sets[1] = _Half(left, left, 0), _Half(0, 0, 0)
    return bool(_LIBC.capset(ctypes.byref(header), sets) == 0)
