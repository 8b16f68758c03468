# Everything starts here: each target sets up what it needs (scripts/setup.sh) and then runs one command.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup web wheel image demo looks test test-all lint format bench gpu-check clean

PY := .venv/bin/python
# The dashboard is built while the system's packages install: the one computes, the other loads.
READY = bash scripts/build_web.sh & web=$$!; bash scripts/services.sh $(NEEDS); services=$$?; wait $$web && exit $$services

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup:  ## create .venv and install ARL into it (instant when nothing changed)
	@bash scripts/setup.sh

web: setup  ## build the dashboard that arl serve shows (instant when nothing changed)
	@bash scripts/build_web.sh

wheel: web  ## build ARL's wheel, with the dashboard, into build/wheel
	@rm -rf build/wheel && $(PY) -m pip wheel --quiet --no-deps --wheel-dir build/wheel . && ls build/wheel/*.whl

image: web  ## build the image of deploy/compose.yaml, arl:latest (needs Docker)
	@bash deploy/image.sh

demo: setup  ## train, search, replay and promote a small model in ./demo (about 5 minutes, no root)
	@bash scripts/build_web.sh || echo '==> No dashboard, then; everything else works without it'
	@bash scripts/demo.sh

test: setup  ## everything CI runs, except what is marked slow
	@$(READY)
	@$(PY) scripts/check.py

test-all: NEEDS = slow
test-all: setup  ## the same with the full matrices (slow)
	@$(READY)
	@$(PY) scripts/check.py --slow

looks: web  ## look at the dashboard: every page, both themes, a desk and a phone, into build/looks (about 15 minutes)
	@ARL_SCREENSHOTS=build/looks $(PY) -m pytest tests/e2e -q -m browser -k "whole or gone" && echo build/looks/index.html

lint: setup  ## style, formatting, types and import contracts, no tests
	@$(PY) scripts/check.py --only lint

audit: setup  ## known vulnerabilities of what ARL is installed with (asks osv.dev and npm)
	@$(PY) scripts/audit.py

format: setup  ## let ruff rewrite what it can
	@$(PY) -m ruff check --fix . && $(PY) -m ruff format .

bench: setup  ## the whole table of goals beside other systems, into docs/performance.md (hours; PARTS="noop asking" for some, QUICK=1 for a try)
	@bash scripts/services.sh
	@$(PY) -m benchmarks.goals $(if $(QUICK),--quick,) $(PARTS)

gpu-check: setup  ## train on a GPU and compare with a plain TRL script (under 8 minutes)
	@$(PY) scripts/gpu_check.py

clean:  ## remove everything the other targets made
	rm -rf .venv .audit .bench .vllm .deepspeed .mlflow .torchao .llmcompressor demo build dist benchmarks/results
	rm -rf web/node_modules controller/api/static
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
