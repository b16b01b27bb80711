"""Small images and documents, made of nothing."""

from __future__ import annotations

import struct
import zlib


def png(side: int = 2, *, claims: int = 0) -> bytes:
    """A grey square; `claims` is the side that its header tells, if that is another one."""
    header = struct.pack(">IIBBBBB", claims or side, claims or side, 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + bytes([128]) * side for _ in range(side))
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, parts))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, content = part
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def pdf(*pages: str) -> bytes:
    """A document with a line of ASCII on each page."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    for at, line in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {4 + 2 * at} 0 R >>"
        )
        shown = f"BT /F1 12 Tf 72 700 Td ({line}) Tj ET"
        objects.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    written, places = b"%PDF-1.4\n", []
    for number, thing in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{thing}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF"
    return written + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()
