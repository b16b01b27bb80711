"""Small images and documents, made of nothing."""

from __future__ import annotations

import io
import struct
import zipfile
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


_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>'
    "</Relationships>"
)


def docx(text: str) -> bytes:
    """A document with one paragraph."""
    name = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{name}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>'
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, part in (("[Content_Types].xml", _TYPES), ("_rels/.rels", _RELATIONS), ("word/document.xml", body)):
            archive.writestr(path, f'<?xml version="1.0"?>{part}')
    return written.getvalue()
