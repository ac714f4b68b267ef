# Two commands set everything up: `make run` and `make test`. Both install what is missing first, and are quick the second time.
SHELL  := /bin/bash
PYTHON := /usr/bin/python3
VENV   := .venv/bin
export PATH := $(PATH):/usr/sbin:/sbin

help: ## this list
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / {printf "make %-8s  %s\n", $$1, $$2}' Makefile

run: build ## the agent on this machine, with a broker of its own on 127.0.0.1:18830; Ctrl-C ends both
	@deploy/lab/run

test: build ## everything that CI checks: linters, types, formats, and all tests that this machine can run
	@deploy/lab/install test
	@$(VENV)/python -m pytest

test-vm: vm ## live tests and planted timer races on Debian's kernels 6.1, 6.12 and their -rt, in QEMU without KVM (10 minutes each)
	@$(VENV)/python -m tests.vm $(if $(ROTATE),--rotate $(ROTATE)) $(if $(QUICK),--quick)

bench: build ## the budgets of the design, as measured / must / aim
	@deploy/lab/install bench
	@$(VENV)/python -m tests.bench

media: build ## build/media/*.ts: streams whose parameter sets change, whose time wraps, that are damaged
	@deploy/lab/install test
	@$(VENV)/python -m tests.media

format: build ## put the sources into the form that `make test` wants
	@$(VENV)/ruff check -q --fix-only . && $(VENV)/ruff format -q . && $(VENV)/clang-format -i bpf/*.c bpf/*.h bpf/tools/*.c firmware_hooks/*/*.[ch] firmware_hooks/*/*/*.[ch]

wheel: build ## dist/gatewarden-*.whl, with the compiled eBPF objects in it
	@rm -rf build/lib build/bdist.* dist && $(VENV)/pip wheel -q --no-deps --wheel-dir dist .

clean: ## remove what was built (not .venv)
	@rm -rf build dist .lab agent/bpf

build: .venv/installed
	@$(MAKE) -s -C bpf

# Debian packages and system users. Asks dpkg each time (30 ms) rather than trust a stamp that another machine may have left.
system:
	@deploy/lab/install

# What `make test-vm` takes beyond `make test`.
vm: build
	@deploy/lab/install vm
	@$(VENV)/pip install -q --disable-pip-version-check --editable '.[dev,vm]'

.venv/installed: pyproject.toml | system
	@echo "installing Python packages into .venv"
	@$(PYTHON) -m venv .venv
	@$(VENV)/pip install -q --disable-pip-version-check --editable '.[dev]'
	@touch $@

.PHONY: help run test test-vm vm bench media format wheel clean build system
