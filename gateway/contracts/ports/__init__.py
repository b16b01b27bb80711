"""What the roles ask of the bus, as Protocols, and the values that go with it."""

from gateway.contracts.ports.access import AccessBus
from gateway.contracts.ports.attachments import AttachmentBus, FetchedFile, WantedAttachment
from gateway.contracts.ports.deliveries import DeliveryBus, Outlook, PendingReply, PlaceBus, TokenWish, WantedFile
from gateway.contracts.ports.intake import Admission, Amendment, IntakeBus, Verdict
from gateway.contracts.ports.lanes import Cancel, CancelKind, Claim, ClaimBatch, DeadMessage, LaneBus, Lease
from gateway.contracts.ports.operator import (
    DeadLetter,
    LaneDepth,
    ModelFault,
    ModelTrouble,
    OperatorBus,
    QueueFigures,
    QueueMoment,
    WaitingMessage,
)
from gateway.contracts.ports.questions import PressBus, QuestionBus
from gateway.contracts.ports.scrubbing import Scrubber, ScrubStream
from gateway.contracts.ports.spans import NoSpans, SpanSink, TraceSpan
from gateway.contracts.ports.suggestions import SuggestionBus, SuggestionSource
from gateway.contracts.ports.time import Clock
from gateway.contracts.ports.vault import VaultBus

__all__ = [
    "AccessBus",
    "Admission",
    "Amendment",
    "AttachmentBus",
    "Cancel",
    "CancelKind",
    "Claim",
    "ClaimBatch",
    "Clock",
    "DeadLetter",
    "DeadMessage",
    "DeliveryBus",
    "FetchedFile",
    "IntakeBus",
    "LaneBus",
    "LaneDepth",
    "Lease",
    "ModelFault",
    "ModelTrouble",
    "NoSpans",
    "OperatorBus",
    "Outlook",
    "PendingReply",
    "PlaceBus",
    "PressBus",
    "QuestionBus",
    "QueueFigures",
    "QueueMoment",
    "ScrubStream",
    "Scrubber",
    "SpanSink",
    "SuggestionBus",
    "SuggestionSource",
    "TokenWish",
    "TraceSpan",
    "VaultBus",
    "Verdict",
    "WaitingMessage",
    "WantedAttachment",
    "WantedFile",
]
