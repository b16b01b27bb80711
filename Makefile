# Every target sets itself up: Python >= 3.11 with pip and a C compiler are enough.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(VENV)/.uv
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
CHECKED := $(VENV)/.checked
ARGS ?=
LIGHT ?=
EXTRAS ?= $(if $(LIGHT),,all)
PREFIX ?= $(HOME)/.local
APP = $(PREFIX)/lib/trivet
MINUTES ?= 10
SOURCES := gateway channels agent tests
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
CONTEST := tests/bench/contest

.PHONY: help setup demo up install test test-llm eval check compiled-tests lint stats types fmt faults drill bench bench-install bench-memory bench-scrub fuzz words lock

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# Where an image sets this, each of the workers of the tests, and every process they start, would compile all the
# tests again, in every run.
unexport PYTHONDONTWRITEBYTECODE

$(UV): requirements.lock
	$(PYTHON) -c 'import sys; sys.exit("Trivet needs Python 3.11 or newer; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip --quiet --disable-pip-version-check install $$(grep -oE '^uv==[^ ]+' requirements.lock)
	@touch $(UV)

# What Trivet runs on and nothing else: the lock is a constraint, and uv checks every hash. The project itself is
# linked, not copied. Bytecode is compiled here: where PYTHONDONTWRITEBYTECODE is set, every start of every process
# would compile it all again. What is not asked for is taken away, tools among it, so nothing may say that they are there.
# `compat` names our folder in a .pth: the finder that setuptools makes otherwise costs every start 8 ms.
$(READY): $(UV) requirements.lock pyproject.toml
	rm -f $(TOOLS) $(CHECKED)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --exact --compile-bytecode --constraint requirements.lock --requirement pyproject.toml --extra all pip setuptools uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --config-setting editable_mode=compat --editable .
	$(BIN)/python -m compileall -q gateway channels agent
	@touch $(READY)

# What only those need who work on Trivet.
$(TOOLS): $(READY)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps --compile-bytecode --requirements requirements.lock
	@touch $(TOOLS)

# What only tests need beside that: the Claude SDK brings 370 MB, and every process that loads redis-py would load the
# OpenTelemetry SDK, too, once it is there.
$(CHECKED): $(TOOLS) tests/checks.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps --requirements tests/checks.lock
	@touch $(CHECKED)

setup: $(READY) ## create .venv and install what Trivet runs on, as the lock names it

demo: $(READY) ## emulators, playground and everything else; ARGS=--headless for a scripted run
	$(BIN)/trivet demo $(ARGS)

up: $(READY) ## start Trivet with ./trivet.toml or the environment
	$(BIN)/trivet up $(ARGS)

# An environment of its own, which needs this clone no more. `uv tool install` would do the same, but checks no hashes.
install: $(UV) ## put `trivet` on the PATH, as the lock names it; LIGHT=1 for Telegram alone, EXTRAS=discord for some
	rm -rf build  # of an earlier release, which would be installed along
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(APP)
	$(BIN)/uv pip install --quiet --python $(APP)/bin/python --constraint requirements.lock setuptools
	$(BIN)/uv pip install --quiet --python $(APP)/bin/python --constraint requirements.lock --no-build-isolation $(if $(LIGHT),--override deploy/light.txt) '.[$(EXTRAS)]'
	mkdir -p $(PREFIX)/bin && ln -sf $(APP)/bin/trivet $(PREFIX)/bin/trivet
	@command -v trivet > /dev/null || echo 'trivet is in $(PREFIX)/bin, which is not on your PATH: export PATH=$(PREFIX)/bin:$$PATH'

bench-install: $(TOOLS) ## megabytes and seconds of an install for Telegram alone, and of all, from a warm cache
	$(BIN)/python -m tests.bench.install

test: $(CHECKED) ## the whole suite, on real Valkey, SQLite, PostgreSQL and client libraries
	$(BIN)/python -m pytest $(ARGS)

test-llm: $(TOOLS) ## a real llama.cpp server and two small models, downloaded at first use (460 MB)
	$(BIN)/python -m pytest tests/llm -n 0 -rs -m long $(ARGS)

eval: $(TOOLS) ## ask the configured model, or SmolLM2 (ARGS=--smollm2), the cases of tests/eval and print a table
	$(BIN)/python -m tests.eval $(ARGS)

# The types are read by one process, so the tests need not wait for them. Beside lint, which is one process, too, the
# tests are compiled once: else each worker would do it, at the same time as the others.
check: ## what CI runs
	$(MAKE) --jobs 2 lint compiled-tests
	$(MAKE) --jobs 2 types test

compiled-tests: $(CHECKED)
	-$(BIN)/python -m pytest --collect-only -qq -n 0 > /dev/null

lint: $(TOOLS) ## ruff and import-linter
	$(BIN)/ruff check $(SOURCES) examples
	$(BIN)/ruff format --check $(SOURCES) examples
	$(BIN)/lint-imports --no-cache

stats: $(CHECKED) ## how heavy the code is: the figures that tests/architecture never lets grow
	$(BIN)/python -m tests.architecture.code_stats

types: $(CHECKED) ## mypy, strict, source and tests
	$(BIN)/mypy $(SOURCES)

fmt: $(TOOLS) ## format and fix what can be fixed
	$(BIN)/ruff check --fix $(SOURCES) examples
	$(BIN)/ruff format $(SOURCES) examples

faults: $(TOOLS) ## kill, pause, cut and slow everything, the long way, then the table of numbers; ARGS=... chooses tests
	$(BIN)/python -m pytest tests/faults -n 0 -s -m "long or not long" $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.faults.numbers)

drill: $(CHECKED) ## upgrade, roll back, lose a machine, cut two apart, read deploy/; as root, for namespaces of the network
	$(BIN)/python -m pytest -n 0 -rs -m long tests/faults/test_upgrade.py tests/faults/test_two_hosts.py tests/e2e/test_manifests.py

bench: $(TOOLS) ## print the performance tables
	$(BIN)/python -m tests.bench $(ARGS)

bench-memory: $(TOOLS) ## how often memory tells the fact that a question needs; ARGS="--facts 20" for a look
	$(BIN)/python -m tests.bench.memory $(ARGS)

bench-scrub: $(TOOLS) ## print the scrubber's goals and how near it is; ARGS=--quick for a look
	$(BIN)/python -m tests.bench.scrub $(ARGS)

fuzz: $(TOOLS) ## fuzz the scrubber, coverage-guided; MINUTES=60 for an hour
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

words: $(TOOLS) ## bring the catalogues of gateway/i18n up to date with the sentences of the source
	$(BIN)/python -m tests.words

lock: $(TOOLS) ## compile requirements.lock again from pyproject.toml
	$(COMPILE) --extra all --group dev pyproject.toml --output-file requirements.lock
	$(COMPILE) --no-deps tests/checks.in --output-file tests/checks.lock
	$(COMPILE) --no-deps tests/llm/llama.in --output-file tests/llm/llama.lock
	for pins in $(CONTEST)/*.in tests/docs/*.in tests/e2e/*.in tests/bench/memory/*.in tests/fuzz/*.in tests/bench/scrub/peers/*.in; do $(COMPILE) $$pins --output-file $${pins%.in}.lock; done

.PHONY: docs pictures
docs: $(TOOLS) ## build the documentation into build/site, strictly: no dead link, nothing fetched from elsewhere
	$(BIN)/python -m tests.docs

pictures: $(TOOLS) ## take the pictures of the documentation anew, in Chromium (Debian: apt-get install chromium)
	$(BIN)/python -m tests.docs.pictures
