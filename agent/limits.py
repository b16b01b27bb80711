"""Every bound and timeout of the agent, each with its reason (agent.md sections 1, 2, 5, 6, 7)."""

from __future__ import annotations

from typing import Final

# --- a turn
TURN_TIMEOUT_S: Final = 600.0
ROUND_TIMEOUT_S: Final = 180.0
WRAP_UP_ROUNDS: Final = 3  # after its last round of tools another engine's loop is told so; then it is cut off
BEGIN_PATIENCE_S: Final = 3.0  # a store that is away longer may be away from this process only: others may have it
COMMIT_PATIENCE_S: Final = 30.0  # an answer is worth waiting out a failover; a process cut off for good must let go
CUT_GRACE_S: Final = 0.2  # a call that is cancelled hangs up at once; one that ignores it holds nobody up
LAST_WORDS_S: Final = 1.0  # for what nobody waits for, when the process ends
ACTIVITY_EVERY_S: Final = 3.0  # Telegram's typing indicator lives five seconds
ACTIVITY_FOR_S: Final = 6.0
LOOK_HOLDS_S: Final = 1.0  # what a turn saw of its author when it began serves its first call; a later one looks anew
LOOKS_KEPT: Final = 1_000  # of as many people as speak within a second
DRAFT_EVERY_S: Final = 0.25  # faster than any platform lets us edit; an answer that is quicker needs no draft
SCRUBBED_AT_ONCE_CHARS: Final = 2_000  # of a stream at which nobody looks: under a millisecond of work
DRAFT_CHARS_MAX: Final = 16_000  # four messages of Telegram: nobody reads along farther, and each is rendered anew

# --- the control lane
STOP_PATIENCE_S: Final = 0.5  # a stopped turn ends in milliseconds; then its worker is not asked any more
SUGGESTING_PARALLEL_MAX: Final = 8  # questions of people who type, answered at a time; each takes milliseconds
SUGGESTED_SESSIONS_MAX: Final = 200  # the newest of one key: older ones are found by /sessions and their number
CONTROL_PARALLEL_MAX: Final = 256  # commands that are answered at a time; each waits half a second at most

# --- buttons
BUTTON_TOKEN_CHARS: Final = 27  # of thirty letters: 132 bits, and with `/press ` half of Telegram's 64 bytes
BUTTON_DRAWS_MAX: Final = 8  # of tokens until one is not redacted: all eight are by no chance, only by a rule
BUTTON_TTL_S: Final = 86_400  # an offer of a day ago is out of sight
BUTTON_LABEL_CHARS_MAX: Final = 64  # what a phone shows of it in one line, and then some; every platform takes it
LINK_NAME_CHARS_MAX: Final = 64  # of a name that a stranger chose; only the account counts
BUTTONS_MAX: Final = 24  # a row and a page more: Discord and Slack take 25 under a message
SESSIONS_SHOWN: Final = 10  # conversations on one page of /sessions: they fit on a phone

# --- model calls
MODEL_BACKOFF_S: Final = (0.5, 2.0)  # before the second and the third try, the last
OUTPUT_RAISED: Final = 4  # times as many tokens as were too few: what is asked once more is seldom twice as long
MODEL_RETRY_AFTER_MAX_S: Final = 60.0  # a provider that wants longer has said no
MODEL_EVENTS_AT_ONCE: Final = 32  # of a stream, in some 2 ms: others wait no longer, and it waits for few of them
MODEL_TOOLS_KEPT: Final = 64  # lists of tools in JSON, about 10 kB each: one for each model and each who may use others
MODELS_KEPT: Final = 256  # endpoints of models that settings and people name
MODEL_END_WAIT_S: Final = 0.2  # for the end of a stream after its last event, which comes at once or never
MODEL_EVENT_BYTES_MAX: Final = 16_000_000  # of a stream: an image at most; an event without an end is none
MODEL_STREAM_BYTES_MAX: Final = 128_000_000  # twice what 128,000 tokens take with an event for each
MODEL_TOKENS_MAX: Final = 100_000_000  # of one call: no window is as large, and such a count spent everybody's day
MODEL_ERROR_BYTES_MAX: Final = 65_536  # of a provider's error: its first words say what it is
MODEL_REPORTS_EVERY_S: Final = 3.0  # how late an operator sees that a key is wrong; no call waits for it
MODEL_NOTICE_EVERY_S: Final = 3_600  # admins are told of a model that does not answer; not with each turn that fails
TRIAL_TIMEOUT_S: Final = 60.0  # of `trivet init`: somebody sits and waits; a local model may have to be loaded first
TRIAL_TOKENS_MAX: Final = 1_000  # one sentence; models that think first take hundreds before it
TRIAL_CHARS_MAX: Final = 80  # of its answer: a line of a terminal
CHEAP_MODEL_WINDOW_MIN: Final = 100_000  # tokens: a summary is made of what a chat's whole budget may hold
CHEAP_MODEL_SIZE_MIN: Final = 12.0  # billions of parameters, where a name says: smaller ones lose names and invent
CHEAP_MODEL_DAYS_MIN: Final = 30  # until it is gone: a choice has to outlive the time that a process runs
UNKNOWN_WINDOW_TOKENS: Final = 8_192  # never assume a frontier window
CONTEXT_BUDGET_TOKENS: Final = 100_000  # of a prompt with its answer: more costs dollars a message, and is read worse
CONTEXT_BUDGET_SHARE: Final = 0.6  # of the window, where that is less
CONTEXT_BUDGET_TOKENS_MIN: Final = 32_000  # of it are cheap in any model, so a smaller window is used whole

# --- memory
MEMORY_KNOWN_TOKENS_MAX: Final = 1_500  # of the facts that are always told: some hundred sentences
MEMORY_KNOWN_PARTS: Final = 20  # of a prompt, so that a small window keeps room for the talk: they take one
MEMORY_KNOWN_MAX: Final = 220  # facts looked up for them; a line has seven tokens or more
MEMORY_FACTS_MAX: Final = 3  # that have to do with a message, beside them: more of them are mostly not meant
FACT_HELPS_CHARS_MAX: Final = 200  # ten words that later questions may have
MEMORY_SNIPPETS_MAX: Final = 5
MEMORY_SAID_CHARS_MAX: Final = 4_000  # of a message that is compared with memory: its matter is named by then
MEMORY_LINE_CHARS_MAX: Final = 300  # of one fact or snippet before the model: ten of them are some 800 tokens
GATHER_CHARS_MAX: Final = 16_000  # of a conversation that one call reads: some 4,000 tokens, for the smallest window
GATHER_REQUESTS_MAX: Final = 4  # calls for one boundary; of what is longer, the newest
GATHER_TOKENS_MAX: Final = 1_200  # ten facts, their words and their frame
GATHER_REASONING_TOKENS_MAX: Final = 4_096
GATHER_TEMPERATURE: Final = 0.0
GATHER_TIMEOUT_S: Final = 30.0
GATHER_KNOWN_MAX: Final = 60  # the newest facts, which need not be found again; what says the same is merged anyway
GATHER_RELATED_MAX: Final = 20  # older ones that have to do with what was said, and may be contradicted by it
GATHERED_FACTS_MAX: Final = 10  # of one call
GATHERED_FACT_CHARS_MAX: Final = 300  # a sentence
GATHERED_REPLY_CHARS_MAX: Final = 400  # of an answer, so that a "yes" can be understood
BOUNDARIES_AT_ONCE: Final = 20  # gone through in a row; the rest waits for the next occasion
BOUNDARY_CLAIM_S: Final = 600.0  # four calls with all their retries
EXPORT_PLAIN_BYTES_MAX: Final = 1_000_000  # a larger one is packed
FACTS_LISTED_MAX: Final = 50  # by /memory: a message or two

# --- cost-aware routing, in letters of an alphabet
ROUTING_LOOK_UP_CHARS: Final = 70  # a question about a word, or thanks; longer ones describe a task
ROUTING_SHORT_CHARS: Final = 200  # below it a question or a single step goes to the low tier
ROUTING_TINY_CHARS: Final = 16  # below it everything does that nothing speaks against: a word or two
ROUTING_LONG_CHARS: Final = 2_000  # above it the high tier
ROUTING_LINES_MAX: Final = 10  # more lines are material to work on: not the low tier
ROUTING_TOOL_CALLS_MAX: Final = 10  # a session with more is hard work
ROUTING_MESSAGES_MAX: Final = 30  # and so is one with more of these
# --- daily limits
RESERVED_COMPLETION_TOKENS_MAX: Final = 4_096  # set aside for an answer whose length nobody bounds: few are longer
RESERVATION_GRACE_S: Final = 15.0  # a call that ran out of time is settled by then; clocks of machines differ
WARNED_PERCENT: Final = 90  # of a daily limit: then its user is told

# --- embeddings
EMBEDDING_TIMEOUT_S: Final = 5.0  # a turn waits for one; words alone find most of what there is to find
EMBEDDING_TRIES_MAX: Final = 2  # likewise
EMBEDDING_PAUSE_S: Final = 0.5  # before the second
EMBEDDING_REST_S: Final = 600.0  # after a refusal: what a key may not do, it may not a turn later
EMBEDDING_WINDOW_MIN: Final = 2_000  # tokens that a model has to take in, to be chosen by itself
EMBEDDING_CHARS_MAX: Final = 8_000  # of one text: about 2,000 tokens, which every embedding model takes
EMBEDDING_TEXTS_MAX: Final = 64  # of one call

# --- what the next message costs
USUAL_ANSWER_TOKENS: Final = 500  # some 350 words

# --- what a turn is told
NAME_CHARS_MAX: Final = 64  # of the name of the person who writes
TONE_CHARS_MAX: Final = 8_000  # of a message whose tone is looked for: three searches, some 25 ms at the very worst

# --- titles
TITLE_AFTER_S: Final = 0.1  # since the turn was allowed its model call, which is on its way by then
TITLE_INPUT_CHARS_MAX: Final = 2_000
TITLE_OUTPUT_CHARS_MAX: Final = 8_000  # of an answer that is looked at: a provider may ignore the next two
TITLE_LINE_CHARS_MAX: Final = 1_000  # of a line that is looked at: its marks come off one by one
TITLE_TOKENS_MAX: Final = 32
TITLE_REASONING_TOKENS_MAX: Final = 512
TITLE_TIMEOUT_S: Final = 15.0  # retries included
TITLE_CLAIM_S: Final = 20.0  # after which a worker that claimed a title and never came back counts as dead
TITLE_TRIES_MAX: Final = 3
TITLE_GRAPHEMES_MAX: Final = 60
TITLE_TEMPERATURE: Final = 0.3

# --- compaction
RESERVE_TOKENS_MAX: Final = 20_000  # room for the answer
VIEW_CHARS_PER_TOKEN: Final = 4  # read at first of a history for each usable token; one with more is nearly always full
TAIL_TURNS: Final = 2
TAIL_SHARE_MAX: Final = 0.25
SUMMARY_TOKENS_MAX: Final = 1_024
SUMMARY_THOUGHT_TOKENS: Final = 4_096  # more for a model that thinks first: the thought counts, too
SUMMARY_REST_TURNS: Final = 5  # of a conversation whose summary failed, before one is paid for again
SUMMARY_RESTS_MAX: Final = 1_000  # conversations that a process remembers that of
SUMMARY_TIMEOUT_S: Final = 30.0  # of one call with its retries, on every path
SUMMARY_BACKOFF_S: Final = (0.2, 0.4)  # somebody waits: two quick retries, then the turn goes on without it
SUMMARY_CHUNKS_MAX: Final = 12  # of a history that was never condensed; a longer one loses its middle
COMPACTION_TIMEOUT_S: Final = 180.0  # all chunks together; the turn that waits has ten minutes
MATERIAL_TOKENS_MIN: Final = 256  # in smaller pieces no summary is worth its call
PRUNE_SHARE: Final = 0.6  # of usable: from here on old tool outputs are pruned
PRUNED_FROM_CHARS: Final = 400
OUTPUTS_KEPT: Final = 5  # the newest tool outputs are never pruned by a pass
ROUNDS_MESSAGES_MAX: Final = 50  # of a running turn, before its first ones are summarised
ROUNDS_KEPT_MESSAGES: Final = 20
SUMMARY_TEMPERATURE: Final = 0.2
UNDO_TURNS_MAX: Final = 100  # taken back at once
UNDO_SHOWN_CHARS: Final = 80  # of what is taken back: enough to know it again

# --- plug-ins
ADVICE_CHARS_MAX: Final = 8_000  # what one hook tells the model beside one message: as a tool's result

# --- tools
TOOL_TIMEOUT_S: Final = 60.0
TOOLS_PARALLEL_MAX: Final = 8
PERMISSIONS_KEPT: Final = 256  # for which it is known what tools they show: of each role, kind of place and ceiling
TOOL_RESULT_CHARS_MAX: Final = 8_000
TOOL_PAGE_CHARS: Final = 7_500  # one page of read_more: a result, with room for its frame
TOOL_RAW_CHARS_MAX: Final = 400_000  # of one result that can be read at all: 50 pages, scrubbed in 40 ms
TOOL_OUTPUT_BYTES_MAX: Final = 256 * 1024  # kept of what a command prints, half from each end
SHELF_RESULTS_MAX: Final = 256  # long results that read_more can still reach in one process
SHELF_CHARS_MAX: Final = 16_000_000  # some 32 MB of memory at the very worst
HANDLE_CHARS: Final = 10  # 49 bits: not to be guessed, short enough for a model to copy
FRAME_CHARS: Final = 8  # of the mark around foreign text: its author cannot know it
NOTE_CHARS_MAX: Final = 200  # of each failure in a note of self-correction
TOOL_ARGUMENTS_CHARS_MAX: Final = 64_000
REPAIRED_CHARS_MAX: Final = 1_000  # of JSON that is broken: repairing is quadratic, 50 ms here and 0.8 s at 4,000
REPAIRED_OPENINGS_MAX: Final = 32  # brackets of it: each unclosed one is gone through again for those in it
ARGUMENTS_VALUES_MAX: Final = 2_000  # of one call: checking so many against a schema takes some 40 ms
ARGUMENTS_DEPTH_MAX: Final = 32  # lists and objects in one another; no tool of ours needs five
TODO_ITEMS_MAX: Final = 50
FACT_CHARS_MAX: Final = 2_000
RECALL_FACTS_MAX: Final = 20

# --- what people write into files
IDENTITY_FILE_CHARS_MAX: Final = 20_000
SKILL_CHARS_MAX: Final = 64_000  # the standard advises 5,000 tokens; some have three times that
SKILL_DESCRIPTION_CHARS_MAX: Final = 1_024  # the standard's; each is in every prompt
SKILL_FILE_CHARS_MAX: Final = 256_000
SKILL_FILES_LISTED_MAX: Final = 100
SKILL_PATH_CHARS_MAX: Final = 256
OWN_FILE_CHARS_MAX: Final = 20_000  # of a command, a type of sub-agents or a profile in the workspace
OWN_FILES_MAX: Final = 100  # of each kind
SKILLS_MAX: Final = 100  # of one layer, for the same reason

# --- asking a person
QUESTION_CHARS_MAX: Final = 66_000  # all that a call may hold and our words; a file, or 34 messages of Discord
QUESTION_CODE_CHARS: Final = 8  # what a button carries (Telegram takes 64 bytes), and what a person can type
ADMINS_ASKED_MAX: Final = 8  # of one question: each is shown all of it
ANSWER_LOOK_EVERY_S: Final = 0.2  # nobody notices, and a hundred open questions ask the bus 500 times a second

# --- files of a workspace
FILE_BYTES_MAX: Final = 2 * 1024 * 1024  # what the file tools read or write; the journal keeps such files whole
FILE_PATH_CHARS_MAX: Final = 1_024
PATH_PARTS_MAX: Final = 256  # of a path with its symbolic links written out
LINKS_MAX: Final = 40  # symbolic links on one path, as Linux has it
LISTED_FILES_MAX: Final = 1_000
WALKED_FILES_MAX: Final = 20_000  # looked at by one search or tree
SEARCH_HITS_MAX: Final = 200
SEARCH_LINE_CHARS_MAX: Final = 300  # of a line that is shown as a hit
SEARCH_BYTES_MAX: Final = 64 * 1024 * 1024  # read by one search: about a second
SEARCH_S: Final = 10.0  # of one search, whatever it meets: a full workspace takes two or three
READ_LINES_MAX: Final = 40_000  # of one file_read: what TOOL_RAW_CHARS_MAX holds of them when all are empty
PATCH_FILES_MAX: Final = 100  # of one file_patch: each is written for itself, and the disk is asked for room each time
PATCH_BYTES_MAX: Final = 16 * 1024 * 1024  # of all its files before and after: in memory until all of them fit
PATCH_LINES_MAX: Final = 200_000  # of a file that is patched: two megabytes hold ten times as many that are empty
PATCH_LOOKS_MAX: Final = 2_000_000  # lines that one patch is compared with where its line numbers are wrong: 0.5 s
QUERIES_MAX: Final = 4  # of db_query at a time in one process: each has a process or a connection of its own
QUERIES_OWNER_MAX: Final = 1  # of one owner
FILE_THREADS_MAX: Final = 4  # on which models' file tools work in one process: what else needs a thread has others
FILE_THREADS_OWNER_MAX: Final = 1  # of one owner: a round of eight reads takes milliseconds one after the other
WORKSPACE_BYTES_MAX: Final = 512 * 1024 * 1024  # of one conversation; a thousand of them are half a terabyte
WORKSPACE_FILES_MAX: Final = 20_000  # counted at every write: some 50 ms at the very most
JOURNAL_STEPS_MAX: Final = 50  # that file_undo can take back
JOURNAL_BYTES_MAX: Final = 32 * 1024 * 1024
JOURNAL_FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # of the list of steps; a patch names many files
FOLDER_LOCK_S: Final = 20.0  # one change takes milliseconds; who waits longer waits for a process that was stopped
FOLDER_LOCK_LOOK_S: Final = 0.003  # for the lock that another process holds: as long as a change takes

# --- files that are sent
SENT_FILES_MAX: Final = 5  # with one answer; each is a message of its own
SENT_FILE_BYTES_MAX: Final = 10_000_000  # Discord takes 10 MiB of a bot, Telegram 50 MB, Slack more
SENT_BYTES_MAX: Final = 25_000_000  # with one answer: in memory until the turn is committed
FILE_NAME_CHARS_MAX: Final = 100
FILE_NAME_BYTES_MAX: Final = 200  # file systems take 255; what is made of a file lies beside it under a longer name
FILE_CAPTION_CHARS_MAX: Final = 480  # Telegram takes 1,024 UTF-16 units, a mark of repetition in front included

# --- files that people send
ATTACHMENT_ASKED_MAX: Final = 5  # twenty seconds of nobody there: a restart of the channels takes five
RECEIVED_MAX: Final = 30  # files of one turn: three albums that came while the one before was answered
RECEIVED_AT_ONCE: Final = 4  # files of one turn that are fetched and looked at: an album takes three rounds
DOCUMENTS_AT_ONCE: Final = 2  # read in one agent process: they have the processors that turns need
DOCUMENTS_OWNER_AT_ONCE: Final = 1  # of one owner: the other reader is there for others
DOCUMENT_TIMEOUT_S: Final = 30.0  # a book of 500 pages takes twenty
DOCUMENT_CHARS_MAX: Final = 400_000  # of one document that is kept as text: 50 pages of a tool, scrubbed in 40 ms
DOCUMENT_BYTES_MAX: Final = 4 * DOCUMENT_CHARS_MAX  # the same before it is decoded
SHOWN_SHARE_MAX: Final = 0.25  # of what a prompt may hold: all texts of one turn's files; the rest is for the talk
SHOWN_TOKENS_MIN: Final = 500  # of them, however small the model: less says nothing
READER_CPU_S: Final = 60  # should the wall clock be slow
READER_MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of address space: a picture of 50 megapixels, unpacked, and copied
UNPACKED_BYTES_MAX: Final = 200 * 1024 * 1024  # of a packed document, as it says of itself: ten times what is fetched
READER_ERRORS_BYTES_MAX: Final = 4_096  # of what it complains of, for the log

# --- images
IMAGES_SHOWN_MAX: Final = 10  # in one prompt: an album; each is some 1,500 tokens in every round
IMAGES_KEPT: Final = (
    4  # of earlier turns, when a newer one would be too many: then the prompt changes, and not again soon
)
CLAUDE_IMAGES_BYTES_MAX: Final = 15_000_000  # of one prompt: base64 makes 20 MB of it, and Anthropic takes 32 in all
IMAGE_TOKENS: Final = 1_600  # what the dearest providers count for one that fills their eye
IMAGE_BYTES_MAX: Final = 3_750_000  # base64 makes five megabytes of it, which is what Anthropic takes
IMAGE_SIDE_MAX: Final = 8_000  # pixels, likewise
IMAGE_SIDE_SHOWN: Final = 2_048  # of one that is made smaller: providers see no more of it
IMAGE_PIXELS_MAX: Final = 50_000_000  # of one that is unpacked here: 200 MB
DESCRIPTION_TOKENS_MAX: Final = 600
DESCRIPTION_TIMEOUT_S: Final = 60.0

# --- what is spoken
TRANSCRIPTION_TIMEOUT_S: Final = 120.0  # an hour of talk takes a minute
TRANSCRIPTION_TRIES_MAX: Final = 2
SPOKEN_BYTES_PER_S: Final = 4_000  # 32 kbit/s, to guess at how long a recording is before anybody has heard it
SPEECH_TIMEOUT_S: Final = 60.0
SPEECH_TRIES_MAX: Final = 2
SPEECH_CHARS_MAX: Final = 4_000  # of an answer, about four minutes; OpenAI takes 4,096 at once
SPEECH_TOKENS_PER_CHAR: Final = 2  # of sound, for models that are paid by those: 20 a second, ten characters
SPOKEN_CHARS_MAX: Final = 60_000  # an hour of talk

# --- the sandbox
SANDBOX_TIMEOUT_S: Final = 60.0  # as any tool
SANDBOX_TIMEOUT_MAX_S: Final = 300.0  # what a call may ask for: half a turn
SANDBOX_CPU_S: Final = 300  # of one process, should the wall clock be slow
SANDBOX_MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of all processes together
SANDBOX_ADDRESS_BYTES: Final = 4 * SANDBOX_MEMORY_BYTES  # of one process: runtimes reserve more than they use
SANDBOX_FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # of one file that a command writes
SANDBOX_PROCESSES_MAX: Final = 64  # of one command; a build with a few jobs needs a dozen
SANDBOX_THREADS_MAX: Final = 512  # also the kernel's bound, but for root; on old kernels it counts all of a user's
SANDBOX_DESCRIPTORS_MAX: Final = 256
SANDBOX_TMP_BYTES: Final = 128 * 1024 * 1024  # of /tmp, which is memory
SANDBOX_WATCH_EVERY_S: Final = 0.1
OWNER_MEASURED_EVERY_S: Final = 60.0  # all folders of one owner; what other processes write there is as old as that
OWNER_REFUSED_AFTER_S: Final = 5.0  # an older measurement is repeated before a refusal: something may have been deleted
ALL_MEASURED_EVERY_S: Final = 600.0  # everybody's folders: some seconds of work on a thread of its own
ALL_REFUSED_AFTER_S: Final = 60.0  # between two such looks while nobody may write
ALL_MEASURED_SHARE: Final = 0.05  # of that thread's time at most, however long a look takes
SANDBOX_QUOTA_EVERY_S: Final = 1.0  # a disk takes a few hundred megabytes in between
SANDBOX_PROBE_S: Final = 10.0
LENT_KNOWN_S: Final = 1_800.0  # how long a secret that was lent is looked for in its lane: longer than any turn
LENT_LANES_MAX: Final = 256  # lanes of one process in which something was lent lately; more are busier than people are
SECRET_ENV_MAX: Final = 8  # variables with a secret in one call; a program that needs more reads a file
SECRET_ENV_BYTES_MAX: Final = 32_768  # of all of them: half of what the pipe to the sandbox holds
SANDBOX_RUNS_MAX: Final = 8  # at once in one agent process
REAP_S: Final = 5.0  # how long a killed process may take to be gone; it takes milliseconds, unless a disk holds it
CODE_CHARS_MAX: Final = 32_000

# --- the process of a sub-agent, as its parent holds it
SUBAGENT_READY_S: Final = 30.0  # it takes a tenth of a second; a machine under load may take a hundred times as long
SUBAGENT_CALLS_OPEN_MAX: Final = 16  # of one child: a round has eight tools at once; further calls wait unread
SUBAGENT_FRAMES_WAITING_MAX: Final = 64  # for a child to read them; then further answers wait
SUBAGENT_HEARD_BYTES_MAX: Final = 256 * 1024 * 1024  # of one child: its longest work repeats a full prompt 12 times
SUBAGENT_HEARD_FRAMES_MAX: Final = 200_000  # a token a frame, that is more than any model says in 12 rounds
SUBAGENT_UNREAD_MAX: Final = 100  # lines that are no frame: a newer child may send some, a broken one many
SUBAGENT_ERRORS_BYTES_MAX: Final = 16 * 1024  # of its standard error, for the log
SUBAGENT_TREE_MAX: Final = 16  # processes, with bubblewrap's own two: a child needs none besides itself
SUBAGENT_THREADS_MAX: Final = 64  # of all of them; a child has a dozen
SUBAGENT_WATCH_EVERY_S: Final = 0.25
SUBAGENT_LAST_WORDS_S: Final = 1.0  # for what a process that has ended left in its pipes
SUBAGENT_CANCEL_S: Final = 0.1  # for a child to end its own way before it is killed; /stop has a second in all

# --- the web
WEB_TIMEOUT_S: Final = 30.0  # of one fetch, redirects included
WEB_BYTES_MAX: Final = 2 * 1024 * 1024  # of a body, unpacked; more text than any model reads
SECRET_HEADERS_MAX: Final = 8  # of one request
SECRET_HEADER_CHARS_MAX: Final = 8_190  # of one header: what servers take
WEB_REDIRECTS_MAX: Final = 5
WEB_URL_CHARS_MAX: Final = 4_096
WEB_HTML_CHARS_MAX: Final = 1_000_000  # of a page that is turned into Markdown: some seconds of work
WEB_CONVERSION_S: Final = 15.0  # an honest page of that size takes a third
WEB_CONVERSIONS_MAX: Final = 2  # pages turned into Markdown at once: they have the processors that turns need
SEARCH_RESULTS_MAX: Final = 10
KEYLESS_SEARCHES_MAX: Final = 2  # at once, each a process: public engines refuse who asks faster

# --- the browser
BROWSER_CONTEXTS_MAX: Final = 6  # conversations with a page of theirs in one process: some 100 MB each
BROWSER_IDLE_S: Final = 600.0  # after which a conversation's page and cookies are forgotten
BROWSER_CALL_S: Final = 60.0  # as any tool; the first one starts Chromium
BROWSER_PAGE_S: Final = 20.0  # for a page to load
BROWSER_STEP_S: Final = 5.0  # for a click or a word to have an effect
BROWSER_SETTLE_S: Final = 0.5  # between a click and the first sign of another page
BROWSER_TRIES_MAX: Final = 3  # to leave for another page
BROWSER_START_S: Final = 20.0
BROWSER_TEXT_CHARS_MAX: Final = 60_000  # of the text of a page
BROWSER_ELEMENTS_MAX: Final = 150  # that can be clicked or filled in
BROWSER_LABEL_CHARS_MAX: Final = 80
BROWSER_CONNECTIONS_MAX: Final = 64  # to servers, over all pages
BROWSER_CONNECTION_S: Final = 120.0  # of one of them
BROWSER_BYTES_MAX: Final = 16 * 1024 * 1024  # in each direction of one of them
BROWSER_HEAD_BYTES_MAX: Final = 64 * 1024

# --- MCP servers
MCP_START_S: Final = 60.0  # `uvx` and its like download on their first start
MCP_CALL_S: Final = 60.0  # as any tool
MCP_LISTED_EVERY_S: Final = 1.0  # however often a server says that its tools have changed
MCP_TOOLS_MAX: Final = 64  # of one server: each is in every prompt
MCP_TOOL_NAME_CHARS_MAX: Final = 64  # what providers take
MCP_DESCRIPTION_CHARS_MAX: Final = 1_024
MCP_SCHEMA_CHARS_MAX: Final = 16_000
MCP_IMAGES_MAX: Final = 4  # of one result
MCP_BACKOFF_S: Final = (1.0, 60.0)  # after the first failure, and at most

# --- plans
PLAN_TIMEOUT_S: Final = 300.0  # of a planner, the time in which somebody thinks about the plan not counted
PLAN_ANSWER_CHARS_MAX: Final = 8_000  # of a plan that is corrected: with its task, half of what a sub-agent may be told
PLAN_STEPS_MAX: Final = 20  # more is a project, and nobody reads it before approving
PLAN_TASK_CHARS_MAX: Final = 4_000

# --- schedules
SCHEDULES_MAX: Final = 50  # active ones of one owner; more is a calendar, which this is not
SCHEDULE_TEXT_CHARS_MAX: Final = 2_000  # of a reminder or a prompt
SCHEDULE_PHRASE_CHARS_MAX: Final = 400  # in which a time is looked for when it does not come first
SCHEDULE_AHEAD_DAYS_MAX: Final = 5 * 366  # a date further away is a mistake
SCHEDULE_GAP_S: Final = 60  # between two firings of one schedule: a queue is no stopwatch
SCHEDULE_GUEST_GAP_S: Final = 300  # a guest's schedule costs its owner nothing, and the operator a turn each time
FIRING_HELD_S: Final = 10.0  # a claim and an enqueue take milliseconds; then another process fires it
FIRING_POLL_S: Final = 10.0  # for what other processes have added, or died over
FIRING_PUT_OFF_S: Final = 30.0  # while a lane or the queue is full
FIRINGS_PARALLEL_MAX: Final = 50  # claimed at a time: all of them are enqueued well before another may claim them
LATE_S: Final = 120.0  # a reminder that comes later than that says when it was due

# --- sub-agents (agent.md section 11)
SUBAGENT_DEPTH_MAX: Final = 3
SUBAGENTS_LIVE_MAX: Final = 9  # that run for one session at a time; a tenth waits
SUBAGENT_RESULT_CHARS_MAX: Final = 4_000  # of an answer before the model that asked; read_more has the rest
SUBAGENT_PROMPT_CHARS_MAX: Final = 16_000
SUBAGENT_LABEL_CHARS_MAX: Final = 80
SUBAGENTS_WAITING_MAX: Final = 100  # of one session in one process: as many as the board shows
SUBAGENT_ID_CHARS: Final = 12  # of a task's id, which is the handle to its answer: 59 bits, and a model can copy them
SUBAGENT_ALIVE_S: Final = 10.0  # how long a task counts as alive after its worker said so
SUBAGENT_ALIVE_EVERY_S: Final = 2.0  # how often it says so: four may be missed
SUBAGENT_LOOK_EVERY_S: Final = 0.1  # for tasks that are to be cancelled, by key: a stop ends them within a second
SUBAGENT_START_EVERY_S: Final = 0.5  # for a place that another process has to free
SUBAGENT_RIGHTS_EVERY_S: Final = 0.75  # between two looks whether those they work for may still ask for it

# --- the process of a sub-agent, where its parent says nothing else
SUBAGENT_CPU_S: Final = 120  # it waits for models most of its time; a search through a full workspace takes a second
SUBAGENT_MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of address space: threads reserve more than they use
SUBAGENT_FILE_BYTES: Final = 64 * 1024 * 1024  # of one file it writes; the file tools stop at two megabytes
SUBAGENT_DESCRIPTORS: Final = 256  # a path has at most 256 folders, and few have ten
SUBAGENT_SIGNALS: Final = 64  # that wait, or timers: the kernel has so many for all of a user's processes together
SUBAGENT_PROCESSES: Final = 512  # the kernel counts threads and, outside a namespace, all of a user's
SUBAGENT_ROUNDS: Final = 12  # the most that a type of the catalog has
SUBAGENT_NOTES_MAX: Final = 100  # lines a child says about itself: fewer than a pipe holds that nobody reads
SUB_TYPES_SEEN_WITHIN_S: Final = 1.0  # after an operator's change, in every process; a look is one small query
SUB_TYPES_LOOK_EVERY_S: Final = 0.5  # for what the model is offered: the two together are what an operator waits for
SUBAGENT_GRACE_S: Final = 30.0  # for the tool that waits, after the time limit of what it waits for
SUBAGENTS_AWAITED_MAX: Final = 32  # by one call: more than a session may have at work and waiting
SUBAGENT_WAIT_S: Final = 300.0  # of a call that waits in place: what a sub-agent may take
SUBAGENT_WAIT_LOOK_S: Final = 0.5  # between two looks of such a call
SUBAGENT_RESULTS_CHARS_MAX: Final = TOOL_RESULT_CHARS_MAX - 200  # of several in one tool result, which is not cut again
WAKE_CHARS_MAX: Final = 24_000  # of the message that wakes a session: well below what the bus takes
WAKE_POLL_S: Final = 1.0  # for what ended in other processes
WAKE_SETTLE_S: Final = 0.3  # sub-agents that end together wake their session once
WAKES_AT_ONCE: Final = 100  # looked at in one go
WAKES_IN_A_ROW_MAX: Final = 8  # without a word of a person: a job of some stages ends before, a loop does not
LOST_LOOK_S: Final = 2.0  # between two looks for sub-agents whose process died
LOST_UNSEEN_S: Final = 5.0  # between two of them: a process that missed more cannot say which others died
LOST_JUMP_S: Final = 2.0  # of the clock between two of them: daylight saving moves none, and time servers nudge
STOP_SUBAGENTS_S: Final = 1.0  # a stop is acknowledged when nothing runs any more, or after this
STOP_LOOK_S: Final = 0.05

# --- orchestrations
ORCHESTRATION_STEPS_MAX: Final = 20  # as a plan: more is a project
ORCHESTRATION_SIDES_MAX: Final = 5
ORCHESTRATION_ROUNDS_MAX: Final = 5  # of a debate
ORCHESTRATION_ITERATIONS_MAX: Final = 10  # of a review: the author and the reviewer, who may be asked twice
ORCHESTRATION_PARTS_MAX: Final = 9  # that a lead may split its work into: all of them are live at once
ORCHESTRATION_GOAL_CHARS_MAX: Final = 2_000  # in front of every prompt
ORCHESTRATION_TASK_CHARS_MAX: Final = 4_000  # with the goal and our words half a prompt: the rest is for results
ORCHESTRATION_REASON_CHARS_MAX: Final = 300  # why a child failed, in prompts and in the answer
ORCHESTRATION_TOKENS: Final = 500_000  # of all children together, if nobody says how many
ORCHESTRATION_TOKENS_MIN: Final = 1_000  # less is not one call
ORCHESTRATION_TOKENS_MAX: Final = 5_000_000
ORCHESTRATION_USD_MAX: Final = 100.0
ORCHESTRATION_LIMIT_S: Final = 540.0  # of a turn's ten minutes; the last one is for saying what came of it
ORCHESTRATION_LIMIT_MIN_S: Final = 10.0
ORCHESTRATION_ENDING_S: Final = 2.0  # before the end of all children end: what they had said by then is kept
ORCHESTRATION_GRACE_S: Final = 10.0  # for killing what is left at the deadline
STATUS_LINES_MAX: Final = 10  # of one turn in its chat: nine at work and one that waits; the rest shares one more
STATUS_LABEL_CHARS_MAX: Final = 60  # in a line, so that all of them are one message on Discord, which takes 2,000
STATUS_GATHER_S: Final = 0.2  # before the first line: those asked for together are shown together
STATUS_EVERY_S: Final = 1.0  # between two rounds of edits: a group may be written to twenty times a minute
STATUS_WAITS_AFTER_S: Final = 2.0  # a sub-agent that is queued for longer is said to wait
STATUS_INSIST_S: Final = 30.0  # for bus and store to come back; what the store has by then is not forgotten
STATUS_TURNS_MAX: Final = 500  # whose lines a process remembers: more than it runs at a time
NAMES_KNOWN_MAX: Final = 1_000  # of people who spoke last: the names of others are written down once more
