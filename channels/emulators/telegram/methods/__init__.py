"""The methods of the Bot API, one table; each takes the backstage and a call and gives the `result` of the answer."""

from __future__ import annotations

from channels.emulators.telegram.methods import account, chats, commands, editing, files, receiving, sending
from channels.emulators.telegram.methods.method import Method

METHODS: dict[str, Method] = {
    method.name.lower(): method
    for method in (
        *account.METHODS,
        *chats.METHODS,
        *commands.METHODS,
        *editing.METHODS,
        *files.METHODS,
        *receiving.METHODS,
        *sending.METHODS,
    )
}
