"""What travels between bus and roles, and the few Protocols that have more than one implementation."""

from gateway.contracts.ports.attachments import FetchedFile, WantedAttachment
from gateway.contracts.ports.deliveries import Outlook, PendingReply, TokenWish, WantedFile
from gateway.contracts.ports.intake import Admission, Amendment, Verdict
from gateway.contracts.ports.lanes import Cancel, CancelKind, Claim, ClaimBatch, DeadMessage, Lease
from gateway.contracts.ports.operator import (
    DeadLetter,
    ModelFault,
    ModelTrouble,
    QueueFigures,
    QueueMoment,
    WaitingMessage,
)
from gateway.contracts.ports.scrubbing import Scrubber, ScrubStream
from gateway.contracts.ports.spans import NoSpans, SpanSink, TraceSpan
from gateway.contracts.ports.time import Clock

__all__ = [
    "Admission",
    "Amendment",
    "Cancel",
    "CancelKind",
    "Claim",
    "ClaimBatch",
    "Clock",
    "DeadLetter",
    "DeadMessage",
    "FetchedFile",
    "Lease",
    "ModelFault",
    "ModelTrouble",
    "NoSpans",
    "Outlook",
    "PendingReply",
    "QueueFigures",
    "QueueMoment",
    "ScrubStream",
    "Scrubber",
    "SpanSink",
    "TokenWish",
    "TraceSpan",
    "Verdict",
    "WaitingMessage",
    "WantedAttachment",
    "WantedFile",
]
