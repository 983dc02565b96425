# Everything a contributor runs. `make help` lists it. Needs Python 3.11+ and make; the rest it brings itself.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
READY  := $(VENV)/.requirements-installed
INSTALLED := $(VENV)/.package-installed
COMPILED := $(VENV)/.modules-compiled
DOCS   := .venv-docs
RELEASE := .venv-release

# Three processes at a time for two cores, since live tests mostly wait. Those of Spark have a stage of their own, of two
# processes; each has a JVM, and keeps to whole files.
SPARK  := $(wildcard tests/spark)
FAST   := $(filter-out tests/spark tests/kafka tests/nats tests/formal tests/versions tests/soak tests/browser tests/data tests/support,$(patsubst %/,%,$(wildcard tests/[a-z]*/)))
# Compiled imports are kept, whatever the environment says: the tests start some hundred processes.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/pycache $(BIN)/python -m pytest
# Exit code 5 of pytest means that nothing was collected.
UNLESS_EMPTY := || { code=$$?; [ $$code -eq 5 ] || exit $$code; }

.DEFAULT_GOAL := help
.PHONY: help demo example test spark-versions browser kafka nats formal check format docs release soak bench warm pins install uncompiled clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-20s %s\n' "$$name" "$$text"; done

demo: install ## a shop whose payments overtake their orders: found, repaired on Spark, run live; one page
	$(BIN)/thence demo

example: install ## one of examples/, as in make example NAME=sources/otel.py; the notebook too
	@[ -f "examples/$(NAME)" ] || { echo "make: say which, as NAME=sources/otel.py; there are:" >&2; cd examples && ls *.py */*.py */*.ipynb >&2; exit 1; }
	$(if $(filter %.ipynb,$(NAME)),$(BIN)/jupyter execute,$(BIN)/python) examples/$(NAME) $(ARGS)

# Each JVM starts with half the CPU time once there is a class archive; it is made beside the fast tests.
test: install ## all tests that fit into minutes
ifneq ($(SPARK),)
	@nice -n 19 $(BIN)/thence doctor --no-start --warm > /dev/null 2>&1 &
endif
ifneq ($(FAST),)
	$(PYTEST) -n 3 --dist worksteal $(FAST) $(UNLESS_EMPTY)
endif
ifneq ($(SPARK),)
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder $(SPARK) $(UNLESS_EMPTY)
endif

# Each in an environment of its own, with the pins of requirements/ but for Spark; the rest of the tests run on the newest.
OLDER := 4.0 4.1 4.2
spark-versions: install $(OLDER:%=.venv-spark-%/.requirements-installed) ## every operator under Spark 4.0, 4.1 and 4.2, and lakehouses
	@set -e; for version in $(OLDER); do echo "== Spark $$version"; \
	  THENCE_SPARK=$$version PYTHONPATH=$(abspath src) PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/pycache \
	    .venv-spark-$$version/bin/python -m pytest -q tests/versions; done

# Needs a broker: the tests start one, from archives of Maven Central kept in the user's cache.
kafka: install ## the tests against a real Kafka broker, and MariaDB where it is installed
	$(PYTEST) tests/kafka

# Starts nats-server itself: the extra nats brings it as a wheel.
nats: install ## endpoints over a real NATS JetStream server; both sides are killed 50 times
	$(PYTEST) tests/nats

# Needs Java; TLC, an archive of Maven Central, is fetched once into the user's cache.
formal: install ## the specifications: TLC in small systems, traces and mutants against them, Z3 for any size
	$(PYTEST) -n 2 --dist loadfile tests/formal
	$(BIN)/python formal/prove.py

check: install ## format, lint, types, import rules, the tables of packages, links, words, docstrings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/architecture.py --check
	$(BIN)/python tools/overtaking.py --check
	$(BIN)/python tools/benchmark_pages.py --check
	$(BIN)/python tools/reference_pages.py --check
	$(BIN)/python tools/links.py
	$(BIN)/python tools/words.py
	$(BIN)/python tools/docstrings.py

format: install ## rewrite the code as `make check` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

browser: install ## the space-time page in a real Chromium; as root it installs Debian's package where there is none
	@command -v "$${THENCE_BROWSER:-chromium}" > /dev/null || command -v google-chrome > /dev/null || \
	  { [ "$$(id -u)" -eq 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium > /dev/null; } || \
	  { echo "make: no browser; install Chromium, or say where it is: make browser THENCE_BROWSER=/path/to/chromium" >&2; exit 1; }
	$(PYTEST) tests/browser

# In an environment of its own: the tests need none of it. Both builders read mkdocs.yml, and both must find nothing wrong.
docs: $(DOCS)/.requirements-installed ## the site, in build/site (by Zensical) and build/site-mkdocs; fails on a broken link
	export SITE_URL="$$($(DOCS)/bin/python tools/site.py)" PYTHONPATH=tools NO_MKDOCS_2_WARNING=1; \
	  $(DOCS)/bin/mkdocs build --quiet --strict --site-dir build/site-mkdocs && $(DOCS)/bin/zensical build --strict --clean
	$(DOCS)/bin/python tools/site.py build/site build/site-mkdocs

release: $(RELEASE)/.requirements-installed ## wheels, sdist, SBOM in dist/, tried under each Python that is declared (DEMO=1: with all extras)
	$(RELEASE)/bin/python tools/release.py $(if $(DEMO),--demo)

soak: install ## the long tests, up to hours
	$(PYTEST) --hypothesis-seed=random tests/properties
	$(PYTEST) -m soak --timeout 0 tests $(UNLESS_EMPTY)

# The audit's benchmark needs data of a size one chooses: docs/explanation/audit.md. Kafka's starts a broker: by hand.
BENCHES := $(filter-out benchmarks/audit/run.py benchmarks/kafka/run.py,$(sort $(wildcard benchmarks/*/run.py benchmarks/deliver/batch.py benchmarks/deliver/stream.py benchmarks/explore/speed.py benchmarks/protocols/literal.py)))
bench: install ## every benchmark, one after the other; each rewrites its JSON result
	@set -e; for script in $(BENCHES); do echo "== $$script"; $(BIN)/python $$script; done

warm: install ## once per machine: let Spark start sooner (Java 17; a minute or two, 200 MB in the user's cache)
	$(BIN)/thence doctor --no-start --warm

pins: install ## write requirements/*.txt anew from pyproject.toml and *.in, keeping versions that still fit
	cd requirements && for set in runtime dev docs release; do \
	  case $$set in runtime) from="../pyproject.toml $(EXTRAS)";; *) from=$$set.in;; esac; \
	  ../$(BIN)/pip-compile --quiet --strip-extras --no-annotate --no-header --allow-unsafe \
	    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	    --output-file $$set.txt $$from \
	  && grep '==' $$set.txt > $$set.new && mv $$set.new $$set.txt; done
EXTRAS := $(addprefix --extra ,cli topology report spark cluster java perfetto kafka faststream avro otlp sql delta iceberg live nats)

install: $(COMPILED)

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "make: no python3 on the path; install Python 3.11 or newer" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is too old; run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# uv installs in a third of the time; it does not read pip's settings, so where it finds no package pip has its turn.
# pyspark comes as source: the wheel that is made of it is unpacked at once, and so it is not compressed.
PINS := --requirement requirements/runtime.txt --requirement requirements/dev.txt
$(READY): export DIST_EXTRA_CONFIG = $(abspath requirements/wheels.cfg)
$(READY): requirements/runtime.txt requirements/dev.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile $$(grep '^uv==' requirements/dev.txt)
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(PINS) || $(PIP) install --quiet --no-compile $(PINS)
	@touch $@

.venv-%/.requirements-installed: requirements/%.txt | $(BIN)/python
	$(BIN)/python -m venv .venv-$*
	.venv-$*/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --requirement $<
	@touch $@

.venv-spark-%/.requirements-installed: export DIST_EXTRA_CONFIG = $(abspath requirements/wheels.cfg)
.venv-spark-%/.requirements-installed: requirements/spark-%.txt $(READY)
	$(BIN)/python -m venv --clear --without-pip .venv-spark-$*
	{ cat $<; sed 's/=.*//; s/^/^/; s/$$/==/' $< | grep -v -f - -e '^pyspark=' requirements/runtime.txt; grep -e '^pytest' -e '^hypothesis=' requirements/dev.txt; } > .venv-spark-$*/requirements.txt
	$(BIN)/uv pip install --quiet --python .venv-spark-$*/bin/python --requirement .venv-spark-$*/requirements.txt || \
	  $(PIP) --python .venv-spark-$*/bin/python install --quiet --no-compile --requirement .venv-spark-$*/requirements.txt
	@touch $@

$(INSTALLED): $(READY) pyproject.toml
	THENCE_COMPILE=0 $(PIP) install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

# Modules whose names end in _cy are compiled where they lie. Without a C compiler they stay plain Python: slower, same answers.
# The mark has the time when this began: what is edited meanwhile is compiled the next time.
$(COMPILED): $(INSTALLED) setup.py $(shell find src -name '*_cy.py' -o -name '*_cy.pxd')
	@find src -name '*_cy.*.so' | while read -r so; do [ "$$so" -nt "$${so%%.*}.py" ] || rm -f "$$so"; done
	@touch $@.begun
	$(BIN)/python setup.py --quiet build_ext --inplace
	@mv $@.begun $@

# The copy has no compiled modules beside its sources, so Python imports the sources themselves.
uncompiled: install ## the fast tests on uncompiled modules
	rm -rf build/uncompiled && mkdir -p build/uncompiled && cp -r src/thence build/uncompiled/ && find build/uncompiled -name '*.so' -delete
	PYTHONPATH=$(abspath build/uncompiled) $(PYTEST) -n 3 --dist worksteal $(FAST)

clean: ## remove what was made, but not .venv
	rm -rf build dist demo .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
