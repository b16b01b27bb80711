"""Every bound and timeout of the agent, each with its reason (agent.md sections 1, 2, 5, 6, 7)."""

from __future__ import annotations

from typing import Final

# --- a turn
TURN_TIMEOUT_S: Final = 600.0
ROUND_TIMEOUT_S: Final = 180.0
TOOL_ROUNDS_MAX: Final = 25  # then one last call with tools off asks for a wrap-up
BEGIN_PATIENCE_S: Final = 3.0  # a store that is away longer may be away from this process only: others may have it
COMMIT_PATIENCE_S: Final = 30.0  # an answer is worth waiting out a failover; a process cut off for good must let go
CUT_GRACE_S: Final = 0.2  # a call that is cancelled hangs up at once; one that ignores it holds nobody up
ACTIVITY_EVERY_S: Final = 3.0  # Telegram's typing indicator lives five seconds
ACTIVITY_FOR_S: Final = 6.0

# --- the control lane
STOP_PATIENCE_S: Final = 0.5  # a stopped turn ends in milliseconds; then its worker is not asked any more
CONTROL_PARALLEL_MAX: Final = 256  # commands that are answered at a time; each waits half a second at most

# --- model calls
MODEL_TRIES_MAX: Final = 3
MODEL_BACKOFF_S: Final = (0.5, 2.0)
MODEL_RETRY_AFTER_MAX_S: Final = 60.0  # a provider that wants longer has said no
UNKNOWN_WINDOW_TOKENS: Final = 8_192  # never assume a frontier window

# --- titles
TITLE_INPUT_CHARS_MAX: Final = 2_000
TITLE_TOKENS_MAX: Final = 32
TITLE_REASONING_TOKENS_MAX: Final = 512
TITLE_TIMEOUT_S: Final = 15.0
TITLE_TRIES_MAX: Final = 3
TITLE_GRAPHEMES_MAX: Final = 60
TITLE_TEMPERATURE: Final = 0.3

# --- compaction
RESERVE_TOKENS_MAX: Final = 20_000  # room for the answer
TAIL_TURNS: Final = 2
TAIL_SHARE_MAX: Final = 0.25
SUMMARY_TOKENS_MAX: Final = 1_024
SUMMARY_TIMEOUT_S: Final = 30.0
SUMMARY_TEMPERATURE: Final = 0.2

# --- tools
TOOL_TIMEOUT_S: Final = 60.0
TOOLS_PARALLEL_MAX: Final = 8
TOOL_RESULT_CHARS_MAX: Final = 8_000
TOOL_ARGUMENTS_CHARS_MAX: Final = 64_000
TODO_ITEMS_MAX: Final = 50
FACT_CHARS_MAX: Final = 2_000
RECALL_FACTS_MAX: Final = 20
IDENTITY_FILE_CHARS_MAX: Final = 20_000
