"""The settings of the scrubber and of the vault."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from gateway.config.section import HTTP_SCHEMES, Secret, Section, expecting

VAULT_TTL_S_MAX: Final = 900  # what is needed later than a quarter of an hour after it was said is said again
VAULT_USES_MAX: Final = 20  # a task that needs a secret more often needs a person who looks at it
KEY_CHARS_MIN: Final = 32  # of a key that shall not be guessed; `openssl rand -hex 32` gives twice as many


def _unguessable(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and len(secret.get_secret_value()) < KEY_CHARS_MIN:
        raise ValueError("too short")
    return secret


def _origin(text: str) -> str:
    """`api.example.com` and `https://api.example.com/` are one place; so are `:443` and nothing, as in browsers."""
    scheme, _, rest = text.strip().lower().rpartition("://")
    scheme, place = scheme or "https", rest.rstrip("/")
    if f"{scheme}://" not in HTTP_SCHEMES or not place or set(place) & set("/?#@ *"):
        raise ValueError("not a host")
    return f"{scheme}://{place.removesuffix(':443' if scheme == 'https' else ':80')}"


UnguessableKey = Annotated[Secret, AfterValidator(_unguessable)]
Origin = Annotated[str, AfterValidator(_origin)]
_KEY = expecting(f"a text of at least {KEY_CHARS_MIN} characters, such as `openssl rand -hex 32` prints")


class Vault(Section):
    """Secrets that a person sent, for tools, for a short while."""

    enabled: bool = Field(
        default=False,
        description="Whether a secret in a person's message is kept, encrypted and for a short while, so that a tool "
        "can be given it once a person approved that. The model never sees it. Off: what was removed is gone.",
    )
    ttl_s: int = Field(
        default=600, ge=30, le=VAULT_TTL_S_MAX, description="Seconds after which a kept secret is forgotten."
    )
    uses_max: int = Field(
        default=3, ge=1, le=VAULT_USES_MAX, description="Calls of a tool that one kept secret may be given to."
    )
    hosts: tuple[Origin, ...] = Field(
        default=(),
        description="Where web_fetch may send a kept secret as a header: hosts, by https on port 443, or origins such "
        "as http://10.0.0.5:8080, which calls with such a secret, and no others, reach also where they are not on the "
        "public web. Empty: nowhere.",
        json_schema_extra=expecting('a list of hosts such as ["api.example.com", "http://10.0.0.5:8080"]'),
    )
    key: UnguessableKey = Field(
        default=None,
        description="What kept secrets are encrypted with; the same on all machines. Empty: generated into "
        "data_dir/vault-key, readable by its owner only. Another key makes everything that was kept unreadable.",
        json_schema_extra=_KEY,
    )


class Scrub(Section):
    """What stands in the place of secrets, and what becomes of the messages that held them."""

    delete_inbound: bool = Field(
        default=False,
        description="Delete a message that held a secret on its platform, once it is taken in without the secret. "
        "Telegram: in private chats, and in groups where the bot may delete messages. Discord: in servers where it has "
        "Manage Messages, never in direct messages. Slack lets an app delete its own messages only. Where it cannot "
        "be done, the author is asked to do it.",
    )

    placeholder_key: UnguessableKey = Field(
        default=None,
        description="What makes equal secrets of one chat equal placeholders; the same on all machines. Empty: "
        "generated into data_dir/placeholder-key, readable by its owner only.",
        json_schema_extra=_KEY,
    )
    vault: Vault = Vault()
