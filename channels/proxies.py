"""Which addresses are reached without the environment's proxy. slack-sdk ignores NO_PROXY, so we ask ourselves."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import proxy_bypass


def goes_direct(url: str) -> bool:
    """True for this machine, whatever the environment says, and for what NO_PROXY names."""
    host = urlsplit(url).hostname or ""
    return is_loopback(host) or bool(proxy_bypass(host))


def is_loopback(host: str) -> bool:
    """True for every name and address of this machine that stays inside it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
