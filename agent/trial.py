"""A trial of the configuration: do the models, their keys and their addresses work, and what would hold somebody else's
program here?

    python -m agent.trial                    asks the configured model for a sentence, and says it
    python -m agent.trial all                asks every model of the settings for one token: a line of JSON for each
    python -m agent.trial confinement        names what holds a sub-agent's process; a second line, what it leaves open
    python -m agent.trial confinement mcp    the same for MCP servers' programs; a line for each that cannot be started
    python -m agent.trial skills             lists the files of skills: a line of JSON for each
    python -m agent.trial login NAME         prints the address at which to log in for an MCP server, and reads where
                                             the browser ended

No other model answers for one that fails. A confinement that was insisted on and cannot be had is a failure."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import wave
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from agent.limits import TRIAL_CHARS_MAX, TRIAL_TIMEOUT_S, TRIAL_TOKENS_MAX
from agent.model_clients import model_clients
from agent.models import requests
from agent.models.client import ModelClient
from agent.models.selection import embedding_model, named_models, utility_model
from agent.prompts.library import PROFILES
from agent.prompts.system import WORKSPACE, SkillLayers
from agent.prompts.workspace import WorkspaceFiles
from agent.subagents.sandbox import choose
from agent.tools.toolbox import login_file, mcp_servers
from gateway import process
from gateway.config import SCRIPTED_MODEL, Settings, load, process_environment
from gateway.config.secrets import secrets_in_files
from gateway.contracts.errors import ConfigError, KeyRejected, ModelError, ModelUnavailable, QuotaSpent
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.process import run_to_exit
from gateway.scrub import Scrubber
from gateway.scrub.own_rules import own_rules
from gateway.telemetry.logs import configure_logs

# One-shot programs of ours: asked one thing, they say the answer on standard output and end. They keep nothing.
#
# A failure is one sentence and a code, as of every program of ours.


def answer_once(asked: Callable[[Settings, Scrubber], Coroutine[Any, Any, str]]) -> NoReturn:
    """Answer as such a program: print what `asked` returns, and end."""

    def program() -> None:
        loaded = load()
        keys = (*loaded.secrets, *secrets_in_files(loaded.settings, process_environment()))
        scrubber = Scrubber(keys, own=own_rules(loaded.settings.scrub))
        process.use_scrubber(scrubber)
        configure_logs(scrubber, level="error", as_json=False)
        sys.stdout.write(f"{asyncio.run(asked(loaded.settings, scrubber))}\n")

    run_to_exit(program)


_SYSTEM: Final = literal_text("You are being tried. Answer in one short sentence.")
_QUESTION: Final = literal_text("Say hello.")
_NOBODY: Final = SessionKey("cli", "trial")
_PASTE: Final = "After the login it ends at a page that does not load. Paste the address of that page here:"
_SILENCE_HZ: Final = 16_000
_KEY_REMEDY: Final = "correct its key, in agent.api_key, in its [models.<name>] or in the variable of its provider"


def main() -> NoReturn:
    """Try what the arguments name: one model, all of them, or a confinement."""
    match sys.argv[1:]:
        case ["all"]:
            answer_once(_tried_all)
        case ["confinement"]:
            answer_once(_of_sub_agents)
        case ["confinement", "mcp"]:
            answer_once(_of_mcp_servers)
        case ["login", name]:
            answer_once(partial(_login, name))
        case ["skills"]:
            answer_once(_of_skills)
        case ["workspace"]:
            answer_once(_of_workspace)
        case _:
            answer_once(_tried)


async def _tried(settings: Settings, scrubber: Scrubber) -> str:
    """Try the model and return the beginning of its answer, on one line. Raises `ModelError`."""
    client = _client(settings)
    try:
        said = await _said(client, settings.agent.model, TRIAL_TOKENS_MAX)
    finally:
        await client.close()
    return " ".join(scrubber.scrub(said).split())[:TRIAL_CHARS_MAX]


async def _tried_all(settings: Settings, scrubber: Scrubber) -> str:
    """Try all models. Return what is wrong with each, and what to do about it; both empty where nothing is."""
    client, named = _client(settings), dict[str, str]()
    embeds = embedding_model(settings, client.facts)
    for setting, models in (
        *named_models(settings).items(),
        ("agent.utility_model", (utility_model(settings, client.facts),)),
        ("agent.embedding_model", (embeds,)),
    ):
        for model in filter(None, models):
            named.setdefault(model, setting)
    tried = {model: setting for model, setting in named.items() if not model.startswith(SCRIPTED_MODEL)}
    try:
        wrong = await asyncio.gather(*(_what_is_wrong(client, settings, model, embeds) for model in tried))
    finally:
        await client.close()
    rows = [
        {"setting": setting, "model": model, "wrong": scrubber.scrub(what), "remedy": remedy}
        for (model, setting), (what, remedy) in zip(tried.items(), wrong, strict=True)
    ]
    return "\n".join(map(json.dumps, sorted(rows, key=lambda row: (row["setting"], row["model"]))))


def _client(settings: Settings) -> ModelClient:
    """Make a client as the agent's, but with nothing to fall back on."""
    alone = settings.agent.model_copy(update={"fallback_models": ()})
    return model_clients(settings.model_copy(update={"agent": alone})).client


async def _what_is_wrong(client: ModelClient, settings: Settings, model: str, embeds: str) -> tuple[str, str]:
    try:
        if model == embeds:
            await client.embed(requests.EmbeddingRequest(model, _NOBODY, (_QUESTION,), TRIAL_TIMEOUT_S))
        elif model == settings.agent.transcription_model:
            recording = io.BytesIO()
            with wave.open(recording, "wb") as file:
                file.setparams((1, 2, _SILENCE_HZ, 0, "NONE", "not compressed"))
                file.writeframes(bytes(2 * _SILENCE_HZ))
            content = recording.getvalue()
            await client.transcribe(
                requests.TranscriptionRequest(
                    model, _NOBODY, "silence.wav", "audio/wav", content, timeout_s=TRIAL_TIMEOUT_S
                )
            )
        elif model == settings.agent.speech_model:
            voice = settings.agent.speech_voice
            await client.speak(requests.SpeechRequest(model, _NOBODY, "hello", voice, timeout_s=TRIAL_TIMEOUT_S))
        else:
            # A model that thinks first is refused, or never begins to answer, where a token is all it has.
            is_thinking = client.facts(model).is_reasoning
            await _said(client, model, TRIAL_TOKENS_MAX if is_thinking else 1)
    except KeyRejected:
        return "its provider does not accept the key", _KEY_REMEDY
    except QuotaSpent:
        return "its quota or credit is used up", "raise it at its provider"
    except ModelUnavailable as error:
        return f"it cannot be reached: {error}", "look at its address and the network, or try again later"
    except ModelError as error:
        return f"it does not answer: {error}", "correct its name or its address"
    return "", ""


async def _said(client: ModelClient, model: str, tokens_max: int) -> str:
    request = requests.ModelRequest(
        model,
        UsagePurpose.TURN,
        _NOBODY,
        _SYSTEM,
        (requests.PromptMessage(Role.USER, _QUESTION),),
        completion_tokens_max=tokens_max,
        timeout_s=TRIAL_TIMEOUT_S,
        backoff_s=(),
    )
    return (await requests.ask(client, request)).text


async def _of_sub_agents(settings: Settings, _scrubber: Scrubber) -> str:
    choice = await choose(settings.subagents.confinement, hidden=[settings.data_dir, Path.home()])
    return f"{choice.sandbox.confinement}\n{choice.not_held}"


async def _of_mcp_servers(settings: Settings, _scrubber: Scrubber) -> str:
    _, confinement, refused = await mcp_servers(settings.tools, settings.data_dir)
    held_by = confinement.name if confinement else "nothing"
    return "\n".join([held_by, *(f"{each.name}: {each.reason}" for each in refused)])


async def _login(name: str, settings: Settings, _scrubber: Scrubber) -> str:
    from agent.tools.mcp_login import LoginFile, log_in  # noqa: PLC0415 - with the SDK

    servers = {server.name: server.url for server in settings.tools.every_mcp_server(process_environment())}
    if not servers.get(name):
        raise ConfigError(f"no MCP server with an address is called {name[:40]!r}: tools.mcp names them")
    file = LoginFile(login_file(settings.data_dir, name))
    return f"{name} offers {await log_in(servers[name], file, _browsed)} tools."


async def _browsed(address: str) -> str:
    sys.stdout.write(f"Open this in a browser, on any machine:\n\n{address}\n\n{_PASTE}\n")
    sys.stdout.flush()
    return await asyncio.to_thread(sys.stdin.readline)


async def _of_workspace(settings: Settings, scrubber: Scrubber) -> str:
    """Name the operator's own commands, types and profiles, then what is wrong in their files, a line for each."""
    own = WorkspaceFiles(settings.data_dir / WORKSPACE, scrubber)
    profiles = (name for name in own.profiles() if name not in PROFILES)
    named = [*(f"/{name}" for name in own.commands.read()), *own.sub_types.read(), *profiles]
    return "\n".join([", ".join(named) or "nothing", *own.mistakes()])


async def _of_skills(settings: Settings, scrubber: Scrubber) -> str:
    return "\n".join(map(json.dumps, SkillLayers(settings.data_dir, scrubber).listing()))


if __name__ == "__main__":
    main()
