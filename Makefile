# Each target sets itself up: it makes a virtual environment in $(VENV) with what it needs.
#
#   make demo    read real compressed images, print what they are, leave pictures in demo/
#   make test    the whole test suite
#   make peers   long comparisons with other programs, those that are installed (see tests/peers)
#   make bench   how fast it is, beside other programs (see docs/performance.rst); BENCH=... are options
#   make record  the same, and the documentation shows the figures
#   make lint    formatting and spelling
#   make docs    the documentation, in docs/_build/html
#
# PYTHON names the interpreter (3.11 or later), VENV the folder of the environment.

PYTHON ?= python3
VENV ?= .venv
CC ?= cc
BIN = $(VENV)/bin
BENCHMARKS = codecs image astropy threads tiles memory
RESULTS = benchmarks/results
SOURCES = pyproject.toml setup.py fitscodecs/_native.pyx $(wildcard cextern/fitscodecs/*.[ch])

.PHONY: demo test peers bench record lint docs check clean

demo: $(VENV)/cli.done
	$(BIN)/python -m fitscodecs.cli.demo demo

test: $(VENV)/test.done
	$(BIN)/python -X dev -W error -m pytest $(PYTEST)

peers: $(VENV)/peers.done
	$(BIN)/python tests/peers/compare_fpack.py
	$(BIN)/python tests/peers/matrix.py
	$(BIN)/python tests/peers/there_and_back.py
	$(BIN)/python tests/peers/kill.py
	$(BIN)/python tests/peers/cluster.py
	$(BIN)/python tests/peers/astropy_bytes.py
	$(BIN)/python tests/peers/astropy_threads.py
	$(BIN)/python tests/peers/astropy_clients.py
	$(BIN)/python tests/peers/astropy_suite.py
	$(BIN)/python tests/peers/zarr_requests.py
	$(BIN)/python tests/peers/zarr_matrix.py
	$(BIN)/python tests/peers/zarr_real.py
	$(BIN)/python tests/peers/zarr_cube.py
	$(BIN)/python tests/peers/zarr_stack.py

bench: $(VENV)/bench.done
	for name in $(BENCHMARKS); do \
	    $(BIN)/python benchmarks/bench_$$name.py $(BENCH) --json $(RESULTS)/$$name.json || exit; \
	done

record: bench
	cp $(BENCHMARKS:%=$(RESULTS)/%.json) $(RESULTS)/recorded

lint: $(VENV)/lint.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(shell git ls-files | grep -v -e '^tests/oracles' -e '^tests/data' -e '\.png$$')
	$(BIN)/clang-format --dry-run -Werror cextern/fitscodecs/*.[ch] tests/c/*.[ch] benchmarks/*.c

docs: $(VENV)/docs.done
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# An environment with one of the extras of pyproject.toml; rebuilt when the C or Cython changed.
$(VENV)/%.done: $(SOURCES) | check
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing into $(VENV): a minute or two the first time'
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$*]'
	touch $@

# What has to be on the machine; each missing thing is named in one line.
check:
	@command -v $(PYTHON) >/dev/null || { echo "missing: Python 3.11 or later (no command $(PYTHON); set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c '' >/dev/null 2>&1 || { echo "missing: Python 3.11 or later ($(PYTHON) does not run; set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "missing: Python 3.11 or later ($(PYTHON) is `$(PYTHON) -V 2>&1`; set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "missing: the venv module of $(PYTHON) (Debian: apt install python3-venv)"; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))' || { echo "missing: the C headers of $(PYTHON) (Debian: apt install python3-dev)"; exit 1; }
	@command -v $(firstword $(CC)) >/dev/null || { echo "missing: a C compiler (no command $(firstword $(CC)); Debian: apt install gcc)"; exit 1; }

clean:
	rm -rf build demo docs/_build docs/codecs docs/performance docs/guide/commands.inc $(VENV) fitscodecs/_native.c fitscodecs/*.so *.egg-info
