"""The doors between the rooms, as Protocols. Bus and store implement them; the roles depend on them."""

from gateway.contracts.ports.access import AccessBook
from gateway.contracts.ports.answers import AnswerShelf
from gateway.contracts.ports.attachments import FetchedFile, WantedAttachment
from gateway.contracts.ports.buttons import ButtonBook
from gateway.contracts.ports.deliveries import Outlook, PendingReply, TokenWish, WantedFile
from gateway.contracts.ports.foreign import ForeignDatabases, Rows
from gateway.contracts.ports.intake import Admission, Amendment, Verdict
from gateway.contracts.ports.lanes import Cancel, CancelKind, Claim, ClaimBatch, DeadMessage, Lease
from gateway.contracts.ports.links import LinkBook
from gateway.contracts.ports.loans import LoanBook
from gateway.contracts.ports.memories import MemoryStore
from gateway.contracts.ports.operator import (
    DeadLetter,
    ModelFault,
    ModelTrouble,
    QueueFigures,
    QueueMoment,
    WaitingMessage,
)
from gateway.contracts.ports.people import PeopleStore
from gateway.contracts.ports.schedules import ScheduleBook
from gateway.contracts.ports.scrubbing import Scrubber, ScrubStream
from gateway.contracts.ports.spans import NoSpans, SpanSink, TraceSpan
from gateway.contracts.ports.spending import SpendingLedger
from gateway.contracts.ports.store import Store
from gateway.contracts.ports.subtasks import SubTaskBook, SubTypeBook
from gateway.contracts.ports.time import Clock
from gateway.contracts.ports.usage import Span, UsageBook

__all__ = [
    "AccessBook",
    "Admission",
    "Amendment",
    "AnswerShelf",
    "ButtonBook",
    "Cancel",
    "CancelKind",
    "Claim",
    "ClaimBatch",
    "Clock",
    "DeadLetter",
    "DeadMessage",
    "FetchedFile",
    "ForeignDatabases",
    "Lease",
    "LinkBook",
    "LoanBook",
    "MemoryStore",
    "ModelFault",
    "ModelTrouble",
    "NoSpans",
    "Outlook",
    "PendingReply",
    "PeopleStore",
    "QueueFigures",
    "QueueMoment",
    "Rows",
    "ScheduleBook",
    "ScrubStream",
    "Scrubber",
    "Span",
    "SpanSink",
    "SpendingLedger",
    "Store",
    "SubTaskBook",
    "SubTypeBook",
    "TokenWish",
    "TraceSpan",
    "UsageBook",
    "Verdict",
    "WaitingMessage",
    "WantedAttachment",
    "WantedFile",
]
