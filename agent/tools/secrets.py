"""The placeholder of a secret among the arguments of a tool: found before the tool runs, and refused in words that
help. Pure.

A model that copies a file back, or is asked to use a key that it never saw, would write the placeholder where the
secret belongs; what it destroys then is found out much later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeGuard
from urllib.parse import urlsplit

import structlog

from agent.limits import LENT_KNOWN_S, LENT_LANES_MAX
from agent.tools.tool import Tool, ToolContext
from gateway.bounded_dict import BoundedDict
from gateway.bus.files import Vault
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import SecretName, SecretUse
from gateway.contracts.ports import Clock
from gateway.scrub.known import LIKENESS, without_injected
from gateway.scrub.vault import Seal, Unreadable

if TYPE_CHECKING:
    from gateway.store.audit import SecretAudit


_INSTEAD: Final = "Leave it out, or tell the user which secret belongs where, so that the user puts it there."
_ONCE_MORE: Final = "Tell the user; a secret that is needed has to be sent again."


class NotAvailable(ToolError):
    """A placeholder whose value a call does not get; said before the tool was run."""


def not_available(placeholder: str, tool: str, instead: str = _ONCE_MORE) -> NotAvailable:
    """Build the error for a value that is not available. It does not say why (unknown, another person's, used up, too
    old): that is revealed to nobody."""
    return NotAvailable(f"The value of {placeholder} is not available to {tool}, and nothing was done. {instead}")


def refuse_placeholders(
    tool: str, arguments: Mapping[str, Any], *, instead: str = "", secret: Sequence[str] = ()
) -> None:
    """Refuse the first argument, except those in `secret`, that holds a placeholder or a text that looks like one, with
    `NotAvailable`. `instead` is what the tool advises to do."""
    for name, value in arguments.items():
        found = () if name in secret else placeholders_in({name: value})
        if found:
            raise NotAvailable(
                f"{found[0]} in `{name[:64]}` stands for a secret that was removed before you saw it, or from what you "
                f"wrote. The value is not available to {tool}, and nothing was done. {instead or _INSTEAD}"
            )


def placeholders_in(value: object) -> tuple[str, ...]:
    """List every placeholder in the texts of an argument, and every text that looks like one, each once."""
    return tuple(dict.fromkeys(found for text in _texts(value) for found in LIKENESS.findall(text)))


def _texts(value: object) -> Iterator[str]:
    """Yield every text of an argument, names included."""
    match value:
        case str():
            yield value
        case Mapping():
            for name, inner in value.items():
                yield str(name)
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


# Gives tools the secrets that a person sent: at the last moment, into arguments that a tool declares secret, for
# the person and the lane they belong to, once a person has approved the call.
#
# The model only ever has placeholders. What it may not do with one (another lane's, one that it made up, one that has
# expired, a host that nobody named) it is told in the same words: the value is not available.


_log = structlog.get_logger(__name__)
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class InjectedSecrets:
    """The secrets of one call, by their placeholders."""

    secrets: Mapping[str, str] = field(repr=False)

    def into(self, arguments: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        """Put the secrets into the arguments of these names, and into no others."""
        return {name: self._filled(value) if name in names else value for name, value in arguments.items()}

    async def out_of(self, text: str) -> str:
        """Remove the secrets from the text, in whatever form. This runs in a thread: a result may be long."""
        return await asyncio.to_thread(without_injected, text, self.secrets) if self.secrets else text

    def _filled(self, value: Any) -> Any:
        match value:
            case str():
                for placeholder, secret in self.secrets.items():
                    value = value.replace(placeholder, secret)
                return value
            case dict():
                return {name: self._filled(inner) for name, inner in value.items()}
            case list():
                return [self._filled(inner) for inner in value]
        return value


class SecretInjector:
    """The way from the vault to a tool. `origins` are the addresses to which a secret may be sent.

    The secrets that were injected in a lane are remembered here, in memory, for LENT_KNOWN_S: a tool that got
    one may leave it in a file that the next one reads."""

    def __init__(self, vault: Vault, seal: Seal, uses: SecretAudit, clock: Clock, *, origins: frozenset[str]) -> None:
        self._vault = vault
        self._seal = seal
        self._uses = uses
        self._clock = clock
        self._origins = origins
        self._lately: BoundedDict[SessionKey, tuple[float, dict[str, str]]] = BoundedDict(LENT_LANES_MAX)

    def lent_lately(self, key: SessionKey) -> InjectedSecrets:
        """Return the secrets that tools were recently given in this lane, so that later outputs can be
        cleaned of them."""
        while self._lately and next(iter(self._lately.values()))[0] <= self._clock.monotonic_s():
            self._lately.popitem(last=False)
        _, secrets = self._lately.get(key, (0.0, {}))
        return InjectedSecrets(secrets)

    def _note(self, key: SessionKey, lent: InjectedSecrets) -> None:
        secrets = {**self.lent_lately(key).secrets, **lent.secrets}
        self._lately[key] = (self._clock.monotonic_s() + LENT_KNOWN_S, secrets)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Return those of the allowed origins that are addresses instead of names: they may be reached even in a
        private network."""
        parts = (urlsplit(origin) for origin in self._origins)
        return tuple((part.hostname, part.port or _PORTS[part.scheme]) for part in parts if _is_address(part.hostname))

    def wanted(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """List the placeholders in the secret arguments of a call. Raises `NotAvailable` for a call that gets no
        secrets, before anybody is asked to approve it."""
        secret = {name: arguments[name] for name in tool.secret_arguments if name in arguments}
        found = placeholders_in(secret)
        if found and tool.secrets_go_to is not None and tool.secrets_go_to(arguments) not in self._origins:
            raise not_available(found[0], tool.spec.name, "The operator has not named this host for secrets.")
        return found

    async def lend(self, context: ToolContext, tool: Tool, placeholders: tuple[str, ...]) -> InjectedSecrets:
        """Use up one call of each secret, whatever becomes of the call. Raises `NotAvailable` unless all are there."""
        person = context.asked_by or context.owner
        names = [SecretName(context.key, person, placeholder) for placeholder in placeholders]
        kept = await self._vault.take(names, tool=tool.spec.name)
        if kept is None or any(secret.expires_at_ms <= self._clock.now_ms() for secret in kept):
            raise not_available(placeholders[0], tool.spec.name)
        try:
            lent = InjectedSecrets({secret.name.placeholder: self._seal.opened(secret) for secret in kept})
        except Unreadable as error:
            raise not_available(placeholders[0], tool.spec.name) from error
        now_ms = self._clock.now_ms()
        await self._uses.record([SecretUse(name, tool.spec.name, context.turn_id, now_ms) for name in names])
        self._note(context.key, lent)
        _log.info("secret.lent", person=str(person), tool=tool.spec.name, secrets=placeholders)
        return lent


def _is_address(host: str | None) -> TypeGuard[str]:
    try:
        return bool(ip_address(host or ""))
    except ValueError:
        return False
