"""Every bound and timeout of the agent, each with its reason (agent.md sections 1, 2, 5, 6, 7)."""

from __future__ import annotations

from typing import Final

# --- a turn
TURN_TIMEOUT_S: Final = 600.0
ROUND_TIMEOUT_S: Final = 180.0
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

# --- daily limits
RESERVED_COMPLETION_TOKENS_MAX: Final = 4_096  # set aside for an answer whose length nobody bounds: few are longer
RESERVATION_GRACE_S: Final = 15.0  # a call that ran out of time is settled by then; clocks of machines differ
WARNED_PERCENT: Final = 90  # of a daily limit: then its user is told

# --- embeddings
EMBEDDING_TIMEOUT_S: Final = 5.0  # a turn waits for one; words alone find most of what there is to find
EMBEDDING_TRIES_MAX: Final = 2  # likewise
EMBEDDING_CHARS_MAX: Final = 8_000  # of one text: about 2,000 tokens, which every embedding model takes
EMBEDDING_TEXTS_MAX: Final = 64  # of one call

# --- memory
MEMORY_FACTS_MAX: Final = 5
MEMORY_SNIPPETS_MAX: Final = 5
MEMORY_SAID_CHARS_MAX: Final = 4_000  # of a message that is compared with memory: its matter is named by then
MEMORY_LINE_CHARS_MAX: Final = 300  # of one fact or snippet before the model: ten of them are some 800 tokens
GATHER_CHARS_MAX: Final = 16_000  # of a conversation that one call reads: some 4,000 tokens, for the smallest window
GATHER_REQUESTS_MAX: Final = 4  # calls for one boundary; of what is longer, the newest
GATHER_TOKENS_MAX: Final = 800  # ten facts and their frame
GATHER_REASONING_TOKENS_MAX: Final = 4_096
GATHER_TEMPERATURE: Final = 0.0
GATHER_TIMEOUT_S: Final = 30.0
GATHER_KNOWN_MAX: Final = 30  # facts that need not be found again; what says the same is merged anyway
GATHERED_FACTS_MAX: Final = 10  # of one call
GATHERED_FACT_CHARS_MAX: Final = 300  # a sentence
GATHERED_REPLY_CHARS_MAX: Final = 400  # of an answer, so that a "yes" can be understood
BOUNDARIES_AT_ONCE: Final = 20  # gone through in a row; the rest waits for the next occasion
BOUNDARY_CLAIM_S: Final = 600.0  # four calls with all their retries
FACTS_LISTED_MAX: Final = 50  # by /memory: a message or two

# --- cost-aware routing, in letters of an alphabet
ROUTING_LOOK_UP_CHARS: Final = 70  # a question about a word; longer ones describe a task
ROUTING_SHORT_CHARS: Final = 200  # below it a greeting, a question or a single step goes to the low tier
ROUTING_TINY_CHARS: Final = 100  # below it everything does that nothing else speaks against
ROUTING_LONG_CHARS: Final = 2_000  # above it the high tier
ROUTING_LINES_MAX: Final = 10  # more lines are material to work on: not the low tier
ROUTING_TOOL_CALLS_MAX: Final = 10  # a session with more is hard work
ROUTING_MESSAGES_MAX: Final = 30  # and so is one with more of these

# --- the answer cache
CACHE_LIKENESS_MIN: Final = 0.95  # cosine of two questions that mean the same
CACHE_CANDIDATES_MAX: Final = 50  # compared by meaning for one question: some 10 ms of arithmetic
CACHE_OWNER_ANSWERS_MAX: Final = 200  # nobody asks more within their lifetime of an hour
CACHE_ANSWERS_MAX: Final = 10_000  # of all together: 400 MB at the very worst, 10 MB as answers are
CACHED_QUESTION_CHARS_MAX: Final = 2_000  # longer ones are material, and never said twice
CACHED_QUESTION_LETTERS_MIN: Final = 12  # below it: "yes", "go on", "and then?"

# --- titles
TITLE_INPUT_CHARS_MAX: Final = 2_000
TITLE_OUTPUT_CHARS_MAX: Final = 8_000  # of an answer that is looked at: a provider may ignore the next two
TITLE_TOKENS_MAX: Final = 32
TITLE_REASONING_TOKENS_MAX: Final = 512
TITLE_TIMEOUT_S: Final = 15.0  # retries included
TITLE_CLAIM_S: Final = 20.0  # after which a worker that claimed a title and never came back counts as dead
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
TOOL_PAGE_CHARS: Final = 7_500  # one page of read_more: a result, with room for its frame
TOOL_RAW_CHARS_MAX: Final = 400_000  # of one result that can be read at all: 50 pages, scrubbed in 40 ms
TOOL_OUTPUT_BYTES_MAX: Final = 256 * 1024  # kept of what a command prints, half from each end
SHELF_RESULTS_MAX: Final = 256  # long results that read_more can still reach in one process
SHELF_CHARS_MAX: Final = 16_000_000  # some 32 MB of memory at the very worst
HANDLE_CHARS: Final = 10  # 49 bits: not to be guessed, short enough for a model to copy
FRAME_CHARS: Final = 8  # of the mark around foreign text: whoever wrote the text cannot know it
NOTE_CHARS_MAX: Final = 200  # of each failure in a note of self-correction
QUESTION_CHARS_MAX: Final = 1_000  # of a call's arguments in a question to a person
APPROVAL_TTL_S: Final = 15 * 60.0
TOOL_ARGUMENTS_CHARS_MAX: Final = 64_000
TODO_ITEMS_MAX: Final = 50
FACT_CHARS_MAX: Final = 2_000
RECALL_FACTS_MAX: Final = 20

# --- what people write into files
IDENTITY_FILE_CHARS_MAX: Final = 20_000
SKILL_CHARS_MAX: Final = 20_000
SKILL_DESCRIPTION_CHARS_MAX: Final = 200  # each stands in every prompt
SKILLS_MAX: Final = 100  # of one layer, for the same reason

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
JOURNAL_STEPS_MAX: Final = 50  # that file_undo can take back
JOURNAL_BYTES_MAX: Final = 32 * 1024 * 1024

# --- the sandbox
SANDBOX_TIMEOUT_S: Final = 60.0  # as any tool
SANDBOX_TIMEOUT_MAX_S: Final = 300.0  # what a call may ask for: half a turn
SANDBOX_CPU_S: Final = 300  # of one process, should the wall clock be slow
SANDBOX_MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of all processes together
SANDBOX_ADDRESS_BYTES: Final = 4 * SANDBOX_MEMORY_BYTES  # of one process: runtimes reserve more than they use
SANDBOX_FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # of one file that a command writes
SANDBOX_PROCESSES_MAX: Final = 64  # of one command; a build with a few jobs needs a dozen
SANDBOX_THREADS_MAX: Final = 512  # the kernel's own bound; it counts threads and, on old kernels, all of a user's
SANDBOX_DESCRIPTORS_MAX: Final = 256
SANDBOX_TMP_BYTES: Final = 128 * 1024 * 1024  # of /tmp, which is memory
SANDBOX_WATCH_EVERY_S: Final = 0.1
SANDBOX_PROBE_S: Final = 10.0
SANDBOX_RUNS_MAX: Final = 8  # at once in one agent process
CODE_CHARS_MAX: Final = 32_000

# --- the web
WEB_TIMEOUT_S: Final = 30.0  # of one fetch, redirects included
WEB_CONNECT_S: Final = 10.0
WEB_BYTES_MAX: Final = 2 * 1024 * 1024  # of a body, unpacked; more text than any model reads
WEB_REDIRECTS_MAX: Final = 5
WEB_URL_CHARS_MAX: Final = 4_096
WEB_HTML_CHARS_MAX: Final = 1_000_000  # of a page that is turned into Markdown: some seconds of work
WEB_CONVERSION_S: Final = 15.0  # an honest page of that size takes a third
WEB_CONVERSIONS_MAX: Final = 2  # pages turned into Markdown at once: they have the processors that turns need
SEARCH_RESULTS_MAX: Final = 10

# --- MCP servers
MCP_START_S: Final = 60.0  # `uvx` and its like download on their first start
MCP_CALL_S: Final = 60.0  # as any tool
MCP_TOOLS_MAX: Final = 64  # of one server: each stands in every prompt
MCP_TOOL_NAME_CHARS_MAX: Final = 64  # what providers take
MCP_DESCRIPTION_CHARS_MAX: Final = 1_024
MCP_SCHEMA_CHARS_MAX: Final = 16_000
MCP_BACKOFF_S: Final = (1.0, 60.0)  # after the first failure, and at most
