"""Every bound and timeout of the waist, each with its reason. Platform limits live with their channel."""

from __future__ import annotations

from typing import Final

# --- lanes
LEASE_TTL_S: Final = 3.0  # takeover after a kill within 3 s, yet three missed beats are no takeover
BEAT_EVERY_S: Final = 1.0
LOOP_DEAD_AFTER_S: Final = 20.0  # a busy event loop must not lose its lease, a dead one must
LANE_MESSAGES_MAX: Final = 20  # what one person may have waiting before being asked to wait
QUEUE_MESSAGES_MAX: Final = 10_000  # about 10 MB of envelopes: the bus stays in memory
TURN_MESSAGES_MAX: Final = 20  # a batch never exceeds a lane
TURN_ATTEMPTS_MAX: Final = 4
RETRY_DELAYS_S: Final = (2.0, 8.0, 30.0, 120.0)
ENVELOPE_BYTES_MAX: Final = 64 * 1024
DEDUPE_WINDOW_H: Final = 25  # Telegram keeps updates for 24 h
DEAD_LETTERS_MAX: Final = 10_000
CLAIM_LANES_MAX: Final = 128
SHUTDOWN_GRACE_S: Final = 30.0

# --- delivery
LEDGER_TTL_S: Final = 48 * 3600
DELIVERY_TAKEOVER_S: Final = 15.0
DELIVERY_ATTEMPTS_MAX: Final = 8
POLLER_LEASE_TTL_S: Final = 10.0
RELAY_AFTER_S: Final = 10.0  # a row still `new` after this lost its publisher
CHANNEL_REPORT_TTL_S: Final = 15.0

# --- store
SQLITE_BUSY_TIMEOUT_S: Final = 5.0  # several processes write in turn; longer means somebody is stuck
SQLITE_READERS_MAX: Final = 4  # WAL readers never wait for the writer; more threads only cost memory
POSTGRES_CONNECTIONS_MAX: Final = 8  # a transaction takes milliseconds; a server has about 100 in all
STORE_CONNECT_TIMEOUT_S: Final = 5.0
STORE_STATEMENT_TIMEOUT_S: Final = 30.0  # nothing of ours scans that long: the server is stuck
STORE_POOL_WAIT_S: Final = 15.0  # what a turn waits for a free connection before it is retried later
MIGRATION_WAIT_S: Final = 60.0  # while another process migrates
RECALL_CANDIDATES_MAX: Final = 500  # facts ranked for one question; people keep dozens
RECALL_TERMS_MAX: Final = 64  # words of one question that are looked up
FACT_TERMS_MAX: Final = 2_000  # words of one fact that can be found

# --- text
INBOUND_CHARS_MAX: Final = 32_000  # no platform lets a person write more in one message
REPLY_CHARS_MAX: Final = 100_000
AUTHOR_NAME_CHARS_MAX: Final = 128

# --- access
PAIRING_CODE_CHARS: Final = 8
PAIRING_TTL_S: Final = 3600
PAIRING_PENDING_MAX: Final = 3
