# make explore   set up, then measure TensorFlow stacks on this machine for ten minutes
# make test      set up, then run every test but the slow and the gpu ones
# make check     types, style, import contracts and the fast tests (few examples of each property)
# make test-slow the long tests
# make golden    write the golden files anew; review the diff
# make bench     measure stackgen itself beside its peers
# make seed      measure what is missing in kb/seed, for TIME=35m, and write it; again goes on
# make docs      build the documentation site, strictly
# make release   build, check and try a release; nothing is published
# make image     an image of stackgen itself, from the wheel in dist/

# The first interpreter that TensorFlow has wheels for; PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.13 python3.10; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
BUDGET ?= 10m
REQUIREMENT ?= tensorflow-cpu
# Fast tests share all CPUs: three processes for two CPUs, since a third of their time is waiting
# (for a disk, a time limit, another process); eight at most.
PARALLEL ?= -n $(shell echo $$((($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2))) --maxprocesses 8 --dist worksteal
# Journeys run in two processes, whose measurements do not wait for each other (tests/conftest.py);
# fixtures are of a file. Beside them run the tests of the container engine, one by one, because
# they share its containers. TESTS=... names files.
JOURNEYS ?= -n 2 --dist loadfile
SHORT = not slow and not gpu
engine_log = .venv/engine-tests.log
# Examples of each property test: quick or thorough (tests/conftest.py); thorough takes all cases.
EXAMPLES ?= quick
FEWER = $(if $(filter quick,$(EXAMPLES)), and not thorough)
test test-slow: EXAMPLES = thorough
pytest = $(bin)/python -m pytest --hypothesis-profile $(EXAMPLES)
# Without compiled modules, each process that a test starts needs twice the time to start.
unexport PYTHONDONTWRITEBYTECODE

bin := .venv/bin
# stackgen alone, for users; and with what its development needs.
installed := .venv/.installed
ready := .venv/.ready

.PHONY: explore test check test-slow golden bench seed clean

explore: $(installed)
	@echo 'stackgen explore "$(REQUIREMENT)" --budget $(BUDGET) $(OPTIONS)'
	@code=0; $(bin)/stackgen explore "$(REQUIREMENT)" --budget $(BUDGET) $(OPTIONS) || code=$$?; \
	if [ $$code -eq 3 ]; then \
		echo "Not decided yet (exit code 3), which is no failure: make explore again goes on from there."; \
	else exit $$code; fi

test: check
	$(pytest) -m "docker and $(SHORT)" $(TESTS) >$(engine_log) 2>&1 & engine=$$!; \
	$(pytest) $(JOURNEYS) -m "(network or journey or prometheus) and not docker and $(SHORT)" $(TESTS); code=$$?; \
	wait $$engine || code=1; cat $(engine_log); exit $$code

check: $(ready)
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/lint-imports
	$(bin)/mypy & types=$$!; \
	$(pytest) $(PARALLEL) \
		-m "not network and not docker and not journey and not prometheus and not slow and not gpu$(FEWER)"; code=$$?; \
	wait $$types && exit $$code

test-slow: $(ready)
	$(pytest) -m "slow and not gpu"

golden: $(ready)
	STACKGEN_GOLDEN=write $(bin)/python -m pytest -q tests/test_render.py tests/test_formats.py \
		tests/test_indicator_guide.py tests/test_noise.py

bench: $(ready)
	for each in benchmarks/[a-z]*.py; do PYTHONPATH=. $(bin)/python $$each || exit 1; done

TIME ?= 35m
seed: $(ready)
	$(bin)/python -m tools.seed $(TIME) $(OPTIONS)

clean:
	rm -rf .venv

$(installed): pyproject.toml
	@test -n "$(PYTHON)" || { echo "stackgen needs Python 3.10 to 3.13; none was found. Install one, or give PYTHON=/path/to/python"; exit 2; }
	@echo "Installing stackgen into .venv, about a minute"
	@$(PYTHON) -m venv .venv || { echo "Debian and Ubuntu: apt-get install python3-venv"; exit 2; }
	@$(bin)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(ready): pyproject.toml $(installed)
	$(bin)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(bin)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

# The documentation site: reference pages from the code, then a strict build into site/.
.PHONY: docs
.venv/.docs: pyproject.toml $(ready)
	$(bin)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

docs: .venv/.docs
	$(bin)/python -m tools.reference
	$(bin)/zensical build --clean --strict
	$(bin)/python -m tools.site site

# A release: built twice and compared, checked, installed and tried; nothing is published.
.PHONY: release
.venv/.release: pyproject.toml $(ready)
	$(bin)/python -m pip install --quiet --disable-pip-version-check --group release
	@touch $@

release: .venv/.release
	$(bin)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	PATH="$(CURDIR)/$(bin):$$PATH" $(bin)/python -m tools.release dist

# An image of stackgen itself, from the wheel in dist/ (make release, or: uv build).
BASE ?= python:3.12-slim
BASE_PYTHON ?= 3.12
.PHONY: image
image: .venv/.release
	rm -rf packaging/context && mkdir -p packaging/context/wheels
	cp packaging/Dockerfile packaging/entrypoint.sh packaging/context
	$(bin)/python -m pip download --quiet --disable-pip-version-check --only-binary :all: \
		--python-version $(BASE_PYTHON) --dest packaging/context/wheels pip dist/stackgen-*.whl
	docker build --build-arg BASE=$(BASE) --tag stackgen-command:latest packaging/context
