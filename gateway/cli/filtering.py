"""`trivet scrub`: a filter for files of any size."""

from __future__ import annotations

import codecs
import signal
import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO, Final

import typer

from gateway.contracts.errors import TrivetError

_PIECE_BYTES: Final = 256 * 1024
"""Read at once: enough for the costs of a piece not to count, far below what its time budget allows."""


class ScrubFailed(TrivetError):
    """The scrubber gave up, so the rest of the input is withheld."""


def scrub(
    report: Annotated[bool, typer.Option("--report", help="Print how many secrets of each kind were found.")] = False,
) -> None:
    """Copy standard input to standard output without the secrets in it, however long it is."""
    from gateway.scrub import StreamScrubber  # noqa: PLC0415 - start-up: compiles every rule

    _end_quietly_with_the_reader()
    scrubber = StreamScrubber()
    out = sys.stdout.buffer
    for piece in _decoded(sys.stdin.buffer):
        clean = scrubber.feed(piece)
        if clean and not report:
            out.write(clean.encode())
            out.flush()
        if scrubber.has_failed:
            raise ScrubFailed("the scrubber gave up, so what follows is withheld")
    rest = scrubber.flush()
    if not report:
        out.write(rest.encode())
        return
    counts = scrubber.removed.most_common()
    for kind, count in counts:
        typer.echo(f"{count:>6}  {kind}")
    typer.echo(f"{sum(count for _, count in counts):>6}  in all")


def _decoded(source: BinaryIO) -> Iterator[str]:
    """The text of a stream of bytes as it arrives; a byte that is no UTF-8 becomes a mark."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := source.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _end_quietly_with_the_reader() -> None:
    """`trivet scrub < log | head` is no error."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
