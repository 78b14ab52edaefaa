# Entry points: every target first creates or updates the environment that it needs.
.DEFAULT_GOAL := help
.PHONY: help env demo test check chaos bench docs lock clean

bin := .venv/bin

# Workers share few cores, and no test may reach for the network. Tests start hundreds of processes:
# none should compile this package again.
test chaos: export OMP_NUM_THREADS = 1
test chaos: export HF_HUB_OFFLINE = 1
test chaos: export PYTHONDONTWRITEBYTECODE =

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile

env: ## make or update .venv; EXTRAS="aloha libero" adds LeRobot's extras
	EXTRAS="$(EXTRAS)" scripts/bootstrap

demo: .venv/.ready ## see it work: three cycles in minutes
	$(bin)/lefleet demo

test: check ## the checks, then the tests
	scripts/chromium
	scripts/test

check: .venv/.ready ## lint, format and types
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

chaos: .venv/.ready ## the long kill-and-resume tests
	$(bin)/python -m pytest -m chaos

bench: .venv/.ready ## the benchmarks
	$(bin)/python -m benchmarks

docs: .venv/.ready ## build the documentation into site/
	$(bin)/mkdocs build --strict

lock: ## rewrite requirements.lock and locks/ from pyproject.toml
	scripts/lock

clean: ## remove caches and built things; keeps .venv and runs/
	rm -rf site dist client/dist plugin/dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src client plugin tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

.venv/.ready: requirements.lock pyproject.toml client/pyproject.toml plugin/pyproject.toml scripts/bootstrap
	scripts/bootstrap
