"""Which addresses are reached without the environment's proxy. slack-sdk ignores NO_PROXY, so we ask ourselves."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import proxy_bypass


def goes_direct(url: str) -> bool:
    """True for this machine, whatever the environment says, and for what NO_PROXY names."""
    host = urlsplit(url).hostname or ""
    return _is_loopback(host) or bool(proxy_bypass(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
