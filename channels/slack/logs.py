"""Where the SDKs of Slack write their logs: nowhere. They log bodies and addresses; what matters to an operator is
said by the adapter."""

from __future__ import annotations

import logging

sdk_log = logging.getLogger("channels.slack.sdk")
sdk_log.setLevel(logging.CRITICAL)
