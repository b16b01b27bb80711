"""Every bound and timeout of the waist, each with its reason. Platform limits live with their channel."""

from __future__ import annotations

from typing import Final

# --- lanes
LEASE_TTL_S: Final = 3.0  # takeover after a kill within 3 s, yet three missed beats are no takeover
BEAT_EVERY_S: Final = 1.0
LOOP_DEAD_AFTER_S: Final = 20.0  # a busy event loop must not lose its lease, a dead one must
LANE_MESSAGES_MAX: Final = 20  # what one person may have waiting before being asked to wait
QUEUE_MESSAGES_MAX: Final = 10_000  # about 10 MB of envelopes: the bus stays in memory
USER_TURNS_MAX: Final = 2  # lanes of one person that run or are next: others wait for two of their turns at most
IDLE_HOURS_MAX: Final = 24 * 366  # a conversation that may rest for longer never ends
TURNS_MAX: Final = 0  # turns at a time over all processes, 0 for as many as the processes can run
TURN_MESSAGES_MAX: Final = 20  # a batch never exceeds a lane
TURN_ATTEMPTS_MAX: Final = 5
NEWER_DELAY_S: Final = 2.0  # a lane whose head only a newer worker can read; an upgrade is a matter of minutes
RETRY_DELAYS_S: Final = (2.0, 8.0, 30.0, 120.0, 0.0)  # after each failed run; after the last it is given up
ENVELOPE_BYTES_MAX: Final = 352 * 1024  # INBOUND_CHARS_MAX of the longest characters, what came along, the frame
REPLY_ENVELOPE_BYTES_MAX: Final = 1024 * 1024  # REPLY_CHARS_MAX likewise
DISK_LOOK_EVERY_S: Final = 1.0  # a second of messages is some megabytes, and the floor a thousand
DEDUPE_WINDOW_H: Final = 25  # Telegram keeps updates for 24 h
DEAD_LETTERS_MAX: Final = 10_000
DEAD_TOLD_WITHIN_S: Final = 15.0  # the author of a dead letter is told at once; after this by another worker
CLAIM_LANES_MAX: Final = 48  # so that the server leases some while a worker begins the runs of those before
COMMIT_LANES_MAX: Final = 128  # of one call: a script must stay short
SHUTDOWN_GRACE_S: Final = 30.0  # what turns get to finish when their process is told to stop
HAND_OVER_S: Final = 8.0  # then: cancel the rest, give lanes back, hang up, also from a server that hangs
ORPHAN_GRACE_S: Final = 10.0  # for a process whose supervisor was killed: a successor may wait for its tokens and files
SETTLE_MAX_S: Final = 3.0  # a stream of fragments may hold a lane back for so long, not longer

# --- bus connection
COMMAND_TIMEOUT_S: Final = 5.0  # a healthy server answers in a millisecond
BUS_CONNECT_TIMEOUT_S: Final = 2.0  # a machine that is gone sends no refusal: ask soon who took its place
DISCOVERY_TIMEOUT_S: Final = 1.0  # a Sentinel, or a node asked who owns what, is one of several: ask the next
BUS_RETRY_FOR_S: Final = 2.0  # an embedded server is back after 0.1 s; a caller hangs no longer than this
REPLICA_WAIT_S: Final = 0.1  # a healthy replica has a write within a millisecond or two
BUS_WAIT_MAX_S: Final = 5.0  # longest blocking read, so that a half-open connection is noticed
INSTALLATION_CHARS: Final = 12  # of 30 letters: by chance no two Trivets on one server have the same name
INSTALLATION_WAIT_S: Final = 30.0  # roles start together; an agent, which tells the others whose the bus is, slowest
BELL_SAFETY_S: Final = 1.0  # a ring that nobody heard costs so long
SHARD_PATIENCE_S: Final = 0.5  # who asks shard after shard waits for one no longer
BUS_BATCH_MAX: Final = 512  # commands of one connection that are on their way at once
DEDUPE_BUCKET_H: Final = 5  # six look-ups cover the window; hourly buckets would need 26
CONTROL_REQUESTS_MAX: Final = 10_000  # nobody waits for a /stop this old
STOPS_KEPT: Final = 5  # of the commands that a person may give at once: /stop is heard when all others are used up
RECEIPTS_MAX: Final = 100_000  # they only pile up while no agent runs
RESTARTS_IN_FRONT_MAX: Final = 1  # of one turn; an author who edits more often waits like everybody
ERROR_CHARS_MAX: Final = 300  # of an error kept with a failing lane
EMBEDDED_START_S: Final = 30.0  # a long append-only file takes seconds to replay
EMBEDDED_STOP_S: Final = 10.0
BUS_WAIT_S: Final = EMBEDDED_START_S  # for a role whose bus is just starting; then it ends, and is started again
REDIS_MEMORY_MB: Final = 512  # of the embedded server: a full queue of the longest messages, and as much again
REDIS_MEMORY_MB_MIN: Final = 16  # two files on their way, and the rest of a small installation

# --- delivery
LEDGER_TTL_S: Final = 48 * 3600
DELIVERY_ATTEMPTS_MAX: Final = 14  # one after each pause of `channels.core.attempt`
POLLER_LEASE_TTL_S: Final = 10.0  # also of the delivery lease: what a vanished machine costs its successor
DEAD_PLACE_TTL_S: Final = 3600  # a bot may be let in again without anybody saying a word
REFUSALS_WINDOW_S: Final = 600  # Discord counts refused requests for so long
NAMER_TTL_S: Final = 30 * 24 * 3600  # since it was named last: a thread nobody writes in needs no other name
UNSURE_TTL_S: Final = 600  # a network that lost one acknowledgement loses the next
BOT_TURNS_MAX: Final = 4  # messages of other bots that a room hears between two of people: a question or two, no loop
BOT_TURNS_WINDOW_S: Final = 3600  # without a word of theirs they begin anew: what reports once an hour is no loop
SENT_IDS_TTL_S: Final = 24 * 3600  # longer than any reply waits for its next attempt
SENT_IDS_MAX: Final = 200  # a place with more messages of ours since the one in question proves nothing
RELAY_AFTER_S: Final = 10.0  # a row still `new` after this lost its publisher
FILES_AT_ONCE: Final = 4  # of one channels process: their bytes are in its memory and in that of Redis
FILE_WAIT_S: Final = 5.0  # for an agent process to hand a file over; a restart of one takes about two
LENT_TTL_S: Final = 60  # who asked has it in a second, or is dead
WANTED_TTL_S: Final = 600  # a process that still waits asks again much sooner
WANTED_FILES_MAX: Final = 1_000

# --- suggestions to people who type
SUGGESTIONS_MAX: Final = 25  # what Discord's client shows; nobody reads more of a list that narrows with each letter
SUGGESTION_CHARS_MAX: Final = 100  # of a label or a value; Discord takes no more
SUGGESTION_TYPED_CHARS_MAX: Final = 100  # nobody types more to find a title
SUGGESTIONS_WAIT_S: Final = 2.0  # Discord and Slack want theirs within three seconds
SUGGESTIONS_TTL_S: Final = 3  # by then the client has given up
SUGGESTIONS_ASKED_MAX: Final = 200  # more than one process answers in that time
SUGGESTIONS_PER_S: Final = 3  # to one person: clients ask at each pause, and a title takes some letters
SUGGESTIONS_BURST: Final = 20  # of them at once: a word in one go
CHANNEL_REPORT_TTL_S: Final = 15.0
QUEUE_NOTED_EVERY_S: Final = 5.0  # a plot of ten minutes on a page is a few hundred pixels wide
QUEUE_PAST_S: Final = 600  # what the operator's page shows
LOG_LINES_KEPT: Final = 5_000  # of all processes, for the operator's page: some megabytes
LOG_LINES_KEPT_S: Final = 86_400
LOG_LINES_PENDING_MAX: Final = 1_000  # of one process, while the bus is away
LOG_LINES_EVERY_S: Final = 2.0
LOG_LINE_CHARS_MAX: Final = 4_000
TALLY_SLOT_S: Final = 300  # a day on a page is a few hundred pixels wide
TALLY_PAST_S: Final = 86_400  # 288 hashes of some dozen numbers: half a megabyte
MODEL_TROUBLES_TTL_S: Final = 86_400  # a model that nobody asked for a day may have been mended since

# --- store
VIEW_PAGE_ENTRIES: Final = 500  # of a history, newest first: most conversations are one page
SQLITE_BUSY_TIMEOUT_S: Final = 5.0  # several processes write in turn; longer means somebody is stuck
NEWEST_ENTRIES: Final = 100  # of a history, always read: more than a turn that runs can still change
HISTORIES_KEPT: Final = 4  # long ones that a process knows: some 4 MB for each window of 200k tokens
WRITES_GATHERED_MAX: Final = 64  # in one transaction of SQLite: it holds the lock for some 50 ms
WRITE_WAITS_S: Final = 0.05  # one that nobody waits for: a commit that could take it along follows within milliseconds
SQLITE_READERS_MAX: Final = 4  # WAL readers never wait for the writer; more threads only cost memory
POSTGRES_CONNECTIONS_MAX: Final = 8  # a transaction takes milliseconds; a server has about 100 in all
STORE_CONNECT_TIMEOUT_S: Final = 5.0
STORE_STANDSTILL_S: Final = 5.0  # of a transaction: a process that is paused in one holds up everybody else's
STORE_TRANSACTION_MAX_S: Final = 30.0  # whatever it waits for; the server ends it, since we may be gone
STORE_KEEPALIVE_S: Final = 10  # of silence: then the server asks three times whether we are still there
STORE_STATEMENT_TIMEOUT_S: Final = 30.0  # nothing of ours scans that long: the server is stuck
STORE_POOL_WAIT_S: Final = 15.0  # what a turn waits for a free connection before it is retried later
STORE_RELEASE_S: Final = 2.0  # for a rollback, which is one trip: longer means the server is stuck or gone
MIGRATION_WAIT_S: Final = 10.0  # another process's migration takes a second; longer means somebody is stuck
RECALL_CANDIDATES_MAX: Final = 500  # facts ranked for one question; people keep dozens
FACTS_MAX: Final = 500  # of one owner; likewise
FACT_COSINE_SAME: Final = 0.95  # two facts that a model finds so alike say the same
FACT_LIKENESS_SAME: Final = 0.9  # shared words of two facts that say the same: rather two facts than one lost
FACT_COSINE_NEAR: Final = 0.3  # below it models see no relation between a question and a fact, unless it stands out
STANDS_OUT: Final = 3.3  # standard deviations above the mean: hardly one of 60 that have nothing to do with it
NEAR_THE_BEST: Final = 0.9  # of the score of the best: what shares less with a message mostly has nothing to do with it
KNOWN_USED_MAX: Final = 20  # facts looked up for being used most, besides the newest
BOUNDARY_TRIES_MAX: Final = 2  # a process that died over a boundary may be followed by one more
BOUNDARIES_KEPT_H: Final = 7 * 24  # what nobody has gone through by then was left while memory was off
PASSAGE_CANDIDATES_MAX: Final = 150  # passages ranked for one message: the newest with one of its words
PASSAGE_TERMS_MAX: Final = 200  # words of one passage that can be found
PASSAGE_VECTORS_MAX: Final = 400  # passages compared with one message by their meaning: the newest, in some 30 ms
PASSAGE_EMBEDDED_CHARS_MIN: Final = 20  # below it there is little that could be meant
PASSAGES_INDEXED_AT_ONCE: Final = 100  # in one transaction: a long session must not hold up the others
RECALL_TERMS_MAX: Final = 64  # words of one question that are looked up
FACT_TERMS_MAX: Final = 2_000  # words of one fact that can be found
SUBTASKS_KEPT: Final = 100  # sub-agents' tasks that are over: the board is for today, transcripts stay
SUBTASK_ALIVE_S: Final = 10.0  # a task that was opened lives for so long; then its worker has to have said so
SUBTASK_AHEAD_S: Final = 900.0  # of the clock of a process that says it lives; more is written by a wrong one
SUBAGENT_KEPT_CHARS_MAX: Final = 200_000  # of a sub-agent's answer
ERASE_PATIENCE_S: Final = 2.0  # for turns and sub-agents to end, which takes them half a second
SUBTASK_SHOWN_CHARS_MAX: Final = 2_000  # of a prompt or an answer in a list of tasks
FAMILY_SESSIONS_MAX: Final = 1_000  # sub-agents' sessions shown below one conversation

# --- foreign databases
FOREIGN_TIMEOUT_S: Final = 20.0  # of one statement
FOREIGN_ROWS_MAX: Final = 500  # more than anybody reads in a chat
FOREIGN_BYTES_MAX: Final = 256 * 1024  # of all cells together
FOREIGN_CELL_CHARS_MAX: Final = 2_000
FOREIGN_STATEMENT_CHARS_MAX: Final = 20_000
FOREIGN_MEMORY_BYTES: Final = 512 * 1024 * 1024  # of the process that reads a SQLite file: sorting takes most
FOREIGN_PATTERN_BYTES_MAX: Final = 200  # of LIKE or GLOB: SQLite looks at no deadline while it compares one text

# --- HTTP: the operator's port, and the one that platforms call
HTTP_CONNECTIONS_MAX: Final = 512  # of one port: half of what a process usually may; a crowd comes at once, too
HTTP_BACKLOG: Final = 128  # what waits is accepted at once, before any of it can make room for another
HTTP_HEAD_BYTES_MAX: Final = 16 * 1024
HTTP_HEAD_S: Final = 10.0  # a head is one packet; a client that takes longer holds a connection for nothing
HTTP_BODY_S: Final = 10.0  # likewise for a body to come in whole
HTTP_BODIES_BYTES_MAX: Final = 16 * 1024 * 1024  # of one port: a platform's calls have some kilobytes each
HTTP_UNREAD_S: Final = 2.0  # for a caller to hear that the body is not read, and why
HTTP_UNREAD_BYTES_MAX: Final = 1024 * 1024  # thrown away meanwhile, since most clients listen when they have said all
HTTP_WRITE_S: Final = 30.0  # for an answer that its caller does not fetch
HTTP_KEEP_ALIVE_S: Final = 75  # longer than proxies keep theirs (nginx: 60 s): none sends into a closing one
ADMIN_IDLE_S: Final = 15 * 60.0  # without a request, an admin role that is on demand rests: it takes 90 MB, and 1 s
SIGN_IN_S: Final = 12 * 3600  # of a browser on the dashboard: a working day, and a forgotten one ends by itself
ADMIN_BODY_BYTES_MAX: Final = 1024 * 1024  # the longest that an operator sends is the prompt of a sub-agent
WEBHOOK_BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # Telegram drops updates of more than 512 KiB; others stay far below

# --- plug-ins
HOOK_CHARS_MAX: Final = 64_000  # more than any message or answer has
HOOK_TIMEOUT_S: Final = 2.0  # it comes before every message of a channel
HOOK_REST_S: Final = 30.0  # after one took too long: its limit is then paid by one message in half a minute
PLUGIN_COMMAND_S: Final = 30.0  # somebody sits there and waits
PLUGIN_THREADS_MAX: Final = 32  # at once in one process; those that hang count until they end

# --- programs that talk to the agent over HTTP
API_BODY_BYTES_MAX: Final = 256 * 1024  # a message of INBOUND_CHARS_MAX, four bytes each, and what clients repeat
API_CLIENT_REQUESTS_MAX: Final = 128  # of one client at once: a quarter of HTTP_CONNECTIONS_MAX, for others wait, too
API_WAIT_MAX_S: Final = 600.0  # one request waits no longer for its answer; the answer can be fetched after that
API_IDS_CHARS_MAX: Final = 64  # of the ids of messages and threads that clients choose
API_LOOK_S: Final = 1.0  # between two looks for an answer that another process of ours delivers
WEBHOOK_TIMEOUT_S: Final = 10.0  # for one call of a webhook, a client's or the operator's
WEBHOOK_CALLS_MAX: Final = 4  # of one webhook that are under way at once: it may be slow
WEBHOOK_SECRET_CHARS_MIN: Final = 16
WEBHOOK_TEXT_CHARS_MAX: Final = 4_000  # of what was said, in an event: a receiver that wants all of it asks the API
WEB_CONNECT_S: Final = 10.0  # for a connection to a host of the public web
FETCHED_ANSWERS_TTL_S: Final = 3_600  # an answer that its client has not fetched within the hour is forgotten

# --- text
INBOUND_CHARS_MAX: Final = 32_000  # no platform lets a person write more in one message
RENDERED_AT_ONCE_CHARS_MAX: Final = 1_000  # of a text on the channels' event loop: 1 ms as people write, 30 ms at worst
REPLY_CHARS_MAX: Final = 40_000  # ten messages of Telegram, twenty of Discord: more belongs in a file
AUTHOR_NAME_CHARS_MAX: Final = 128

SCRUBBED_FILE_BYTES_MAX: Final = 3_000_000  # of a text file: the scrubber has time for some 5 MB on a quiet machine

# --- files that people send
ATTACHMENT_BYTES_MAX: Final = 20 * 1024 * 1024  # Telegram hands bots no larger ones; models and readers take less
ATTACHMENT_BYTES_CEILING: Final = 100 * 1024 * 1024  # for operators whose platforms hand out more; three are in memory
ATTACHMENTS_MAX: Final = 10  # with one message: what an album has, and what Discord and Slack take in one
ATTACHMENT_PIECE_BYTES: Final = 512 * 1024  # on the bus at a time, which others use meanwhile
ATTACHMENT_PIECES_AHEAD: Final = 4  # 2 MB of one file lie on the bus, however slow its reader
ATTACHMENT_BEAT_S: Final = 1.0  # who fetches says so this often
ATTACHMENT_SILENCE_S: Final = 4.0  # after which the fetching process is taken for dead, and the file asked for again
ATTACHMENT_TTL_S: Final = 60  # of what lies on the bus: who asked has it in a second, or is dead
ATTACHMENT_WISHES_MAX: Final = 1_000
ATTACHMENTS_AT_ONCE: Final = 3  # fetched by one channel: they are in its memory, some sixty megabytes
ATTACHMENT_FETCH_S: Final = 90.0  # for all tries of a download: twenty megabytes over a poor line

# --- the vault
VAULT_SECRETS_MAX: Final = 32  # of one person at a time: more than anybody sends within minutes

# --- questions to people
QUESTION_MARGIN_S: Final = 60.0  # a question is known this much longer than its turn waits for the answer
PRESS_ANSWER_S: Final = 5.0  # Discord and Slack are acknowledged before; Telegram's client shows that it waits
TOLD_TTL_S: Final = 60  # a channel that has not asked by then has died

# --- access
ADMIN_TOKEN_CHARS_MIN: Final = 32  # 128 bits in hexadecimal: nobody guesses one, however fast the API answers
PAIRING_CODE_CHARS: Final = 8
PAIRING_TTL_S: Final = 3600
PAIRING_PENDING_MAX: Final = 3  # of one channel: an admin reads them in one glance, and nobody floods the list
PAIRING_TRIES_MAX: Final = 5  # wrong codes of one person; there are 31^8 of them
PAIRING_LOCKED_S: Final = 3600
OWNER_CODE_CHARS: Final = 12  # 58 bits: a person who guesses it owns the agent, and guesses are not counted
OWNER_CODE_TTL_S: Final = 3600
PAIRING_TAKEN_S: Final = 600  # who took a code and died over it asks again within minutes
LINK_CODE_TTL_S: Final = 600  # long enough to open another client
LINK_TRIES_MAX: Final = PAIRING_TRIES_MAX  # wrong codes of one account, then an hour: codes are as long as those
LINK_LOCKED_S: Final = PAIRING_LOCKED_S
LINKED_ACCOUNTS_MAX: Final = 8  # three platforms, several workspaces; each look into memory names them all
PROJECTION_STAGED_S: Final = 60  # a projection under way; a process that dies over it leaves it behind
PROJECTION_LOOK_S: Final = 2.0  # how long a bus that lost its memory lets nobody in
REASON_CHARS_MAX: Final = 200  # why somebody was blocked, in an operator's words
VIEWS_KEPT: Final = 4096  # of people and places, in one process and shard: half a megabyte
RATED_AUTHORS_MAX: Final = 4096  # people whose pace one channel remembers; who is forgotten has that of a guest

# --- sub-agents, as people may configure them
SUBAGENTS_PROCESS_MAX: Final = 256  # of one process and depth: 8 GB of memory; more is a slip of the pen
SUB_TYPE_LABEL_CHARS_MAX: Final = 60  # a badge on the board
SUB_TYPE_DESCRIPTION_CHARS_MAX: Final = 500  # thirteen of them are in every prompt that may delegate
SUB_TYPE_PROMPT_CHARS_MAX: Final = 16_000  # some 4,000 tokens: half of the smallest window
SUB_TYPE_TOOLS_MAX: Final = 128  # what models take at all
SUB_TYPE_ROUNDS_MAX: Final = 50  # at six seconds each that is the time limit of a child
AUDITED_SHOWN_MAX: Final = 500  # lines of one answer of the API
AUDITED_SHOWN_DEFAULT: Final = 50
AUDIT_KEPT: Final = 2_000  # lines of one actor: years of an operator's, and nobody pushes out what others did


# --- Secrets that were met -----------------------------------------------------------------------------------------

MET_SECRETS_MAX: Final = 64  # of one text, and spellings of one chat: more is a file of passwords, read as such
MET_SECRETS_CHATS_MAX: Final = VIEWS_KEPT  # a lane is asked about beside its people's view, and no more often
MET_SECRETS_TTL_S: Final = 6 * 3600.0  # in which somebody who pasted a password comes back to it
