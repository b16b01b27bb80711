"""/voice: answers that are heard, too. The words go out as always; a recording of them goes along as a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import structlog

from agent import limits
from agent.engine import Turn
from agent.features.commands import CommandReply, CommandRequest, CommandRow
from agent.models.client import ModelClient
from agent.models.requests import SpeechRequest
from agent.tools.files.send_file import media_type
from agent.tools.tool import Enclosed
from gateway.contracts.errors import BudgetSpent, ModelError, ToolError
from gateway.contracts.messages import literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import SetVoice, Usage, UsagePurpose

_log = structlog.get_logger(__name__)
_OPUS: Final = b"OpusHead"  # in the first page of an Ogg stream (RFC 7845, 5.1)
_VOICE: Final = "audio/ogg"
_NAMES: Final = {
    _VOICE: literal_text("answer.ogg"),
    "audio/mpeg": literal_text("answer.mp3"),
    "audio/wave": literal_text("answer.wav"),
    "audio/flac": literal_text("answer.flac"),
}
_FENCED: Final = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^][\n]*)\]\([^()\n]*\)")  # in one go: no bracket is looked at twice
_ADDRESS: Final = re.compile(r"https?://\S+")
_SIGNS: Final = re.compile(r"^\s{0,3}(?:#{1,6}|>|[-*+]|\d+[.)])\s+|[*_`~]", re.MULTILINE)
_SWITCH: Final = {"on": True, "off": False}


def spoken(answer: str) -> str:
    """Turn Markdown into what a voice can say: no code, no tables, no addresses, of long answers the beginning; empty
    where nothing is left. Pure."""
    words = _LINK.sub(r"\1", _ROW.sub("", _FENCED.sub("", answer)))
    words = _SIGNS.sub("", _ADDRESS.sub("", words))
    lines = [line.strip() for line in words.splitlines() if any(map(str.isalnum, line))]
    said = ""
    for line in lines:
        if len(said) + len(line) > limits.SPEECH_CHARS_MAX:
            break
        said = f"{said}\n{line}" if said else line
    return said or "\n".join(lines)[: limits.SPEECH_CHARS_MAX]


@dataclass(eq=False, repr=False)
class Voice:
    """Speaks the answers of those conversations that want it; without a `model` none."""

    client: ModelClient
    model: str
    voice: str
    clock: Clock

    async def speak(self, turn: Turn) -> None:
        """Put a recording of the answer among the files of the turn, where its conversation wants that. The answer goes
        out without one where the model fails, or where nothing of it can be said."""
        text = spoken(turn.answer or "") if self.model and turn.session.is_voiced else ""
        if not text:
            return
        request = SpeechRequest(
            self.model,
            turn.batch.key,
            text,
            voice=self.voice,
            timeout_s=limits.SPEECH_TIMEOUT_S,
            turn_id=turn.batch.turn_id,
            permit=turn.hold.permit,
        )
        try:
            made = await self.client.speak(request)
            usage = Usage(
                turn.batch.key,
                UsagePurpose.SPEECH,
                self.model,
                prompt_tokens=0,
                completion_tokens=0,
                cost_usd=made.cost_usd,
                turn_id=turn.batch.turn_id,
                created_at_ms=self.clock.now_ms(),
            )
            turn.usage.append(usage)
            content = made.content
            # It is judged by what it is: a provider may not make what it was asked for.
            kind = _VOICE if content.startswith(b"OggS") and _OPUS in content[:64] else media_type("", content)
            if kind not in _NAMES:
                raise ToolError(f"the speech model sent no sound that is known here but {kind}")
            turn.enclosures.add(Enclosed(_NAMES[kind], kind, content, literal_text("")))
        except (ModelError, BudgetSpent, ToolError) as error:
            _log.warning("voice.not_made", reason=str(error))

    def commands(self) -> tuple[CommandRow, ...]:
        """Return the row of /voice."""

        async def voice(asked: CommandRequest) -> CommandReply | str:
            words, wanted = asked.words, asked.argument.strip().lower()
            if not self.model:
                return words.say("I have no voice here: the operator has set up no speech model.")
            is_on = _SWITCH.get(wanted, asked.session.is_voiced)
            spoken_too = words.say("My answers here are written and spoken. `/voice off` ends that.")
            written = words.say("My answers here are written. `/voice on` has them spoken, too.")
            effects = (SetVoice(is_on),) if wanted in _SWITCH else ()
            return CommandReply(spoken_too if is_on else written, effects)

        return (CommandRow("voice", voice),)
