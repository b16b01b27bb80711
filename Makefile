# Every target sets itself up: Python >= 3.11 with pip and a C compiler are enough.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHECKED := $(VENV)/.checked
ARGS ?=
MINUTES ?= 10
SOURCES := gateway channels agent tests
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
CONTEST := tests/bench/contest

.PHONY: help setup demo up test test-llm eval check lint stats types fmt faults bench bench-memory bench-scrub fuzz words lock

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# Where an image sets this, each of the workers of the tests, and every process they start, would compile all the
# tests again, in every run.
unexport PYTHONDONTWRITEBYTECODE

# uv installs from the lock alone, with every hash checked; the project itself is linked, not copied. Bytecode is
# compiled here: where PYTHONDONTWRITEBYTECODE is set, every start of every process would compile it all again. What is
# not in this lock is taken away, what only checks need among it, so nothing may say that it is there.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Trivet needs Python 3.11 or newer; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -f $(CHECKED)
	$(BIN)/python -m pip --quiet --disable-pip-version-check install $$(grep -oE '^uv==[^ ]+' requirements.lock)
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q gateway channels agent
	@touch $(READY)

# What only checks need, so that nobody waits for it who wants to try the product: the Claude SDK brings 370 MB, and
# every process that loads redis-py would load the OpenTelemetry SDK, too, once it is there.
$(CHECKED): $(READY) tests/checks.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps --requirements tests/checks.lock
	@touch $(CHECKED)

setup: $(READY) ## create .venv and install what the lock names

demo: $(READY) ## emulators, playground and everything else; ARGS=--headless for a scripted run
	$(BIN)/trivet demo $(ARGS)

up: $(READY) ## start Trivet with ./trivet.toml or the environment
	$(BIN)/trivet up $(ARGS)

test: $(CHECKED) ## the whole suite, on real Valkey, SQLite, PostgreSQL and client libraries
	$(BIN)/python -m pytest $(ARGS)

test-llm: $(READY) ## a real llama.cpp server and two small models, downloaded at first use (460 MB)
	$(BIN)/python -m pytest tests/llm -n 0 -rs -m long $(ARGS)

eval: $(READY) ## ask the configured model, or SmolLM2 (ARGS=--smollm2), the cases of tests/eval and print a table
	$(BIN)/python -m tests.eval $(ARGS)

# The types are read by one process, so the tests need not wait for them.
check: lint ## what CI runs
	$(MAKE) --jobs 2 types test

lint: $(READY) ## ruff and import-linter
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports --no-cache

stats: $(CHECKED) ## how heavy the code is: the figures that tests/architecture never lets grow
	$(BIN)/python -m tests.architecture.code_stats

types: $(CHECKED) ## mypy, strict, source and tests
	$(BIN)/mypy $(SOURCES)

fmt: $(READY) ## format and fix what can be fixed
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

faults: $(READY) ## kill, pause, cut and slow everything, the long way, then the table of numbers; ARGS=... chooses tests
	$(BIN)/python -m pytest tests/faults -n 0 -s -m "long or not long" $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.faults.numbers)

bench: $(READY) ## print the performance tables
	$(BIN)/python -m tests.bench $(ARGS)

bench-memory: $(READY) ## how often memory tells the fact that a question needs; ARGS="--facts 20" for a look
	$(BIN)/python -m tests.bench.memory $(ARGS)

bench-scrub: $(READY) ## print the scrubber's goals and how near it is; ARGS=--quick for a look
	$(BIN)/python -m tests.bench.scrub $(ARGS)

fuzz: $(READY) ## fuzz the scrubber, coverage-guided; MINUTES=60 for an hour
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

words: $(READY) ## bring the catalogues of gateway/i18n up to date with the sentences of the source
	$(BIN)/python -m tests.words

lock: $(READY) ## compile requirements.lock again from pyproject.toml
	$(COMPILE) --group dev pyproject.toml --output-file requirements.lock
	$(COMPILE) --no-deps tests/checks.in --output-file tests/checks.lock
	$(COMPILE) --no-deps tests/llm/llama.in --output-file tests/llm/llama.lock
	for pins in $(CONTEST)/*.in tests/docs/*.in tests/bench/memory/*.in tests/fuzz/*.in tests/bench/scrub/peers/*.in; do $(COMPILE) $$pins --output-file $${pins%.in}.lock; done

.PHONY: docs pictures
docs: $(READY) ## build the documentation into build/site, strictly: no dead link, nothing fetched from elsewhere
	$(BIN)/python -m tests.docs

pictures: $(READY) ## take the pictures of the documentation anew, in Chromium (Debian: apt-get install chromium)
	$(BIN)/python -m tests.docs.pictures
