# elastune: `make demo` shows it, `make test` proves it; both install what is missing and work again without a network.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/elastune
export CARGO_TARGET_DIR ?= $(CACHE)/target
export LIBTORCH ?= $(CACHE)/libtorch-2.11.0-cpu
# Builds read service/.sqlx, never a database.
export SQLX_OFFLINE ?= true
BIN := $(CARGO_TARGET_DIR)/debug

.PHONY: help setup web build lint test demo images fmt openapi sqlx clean $(addprefix bench-,resize sim brain search)

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## Install what is missing: system packages, libtorch, front-end packages
	@scripts/setup.sh

web: setup ## Build the web page
	@scripts/web.sh build

build: setup web ## Build every binary
	cargo build --locked --workspace --bins

lint: setup web ## Check format, lints and types
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	scripts/web.sh check

test: lint build ## Run the whole suite: Rust, web, end to end
	scripts/web.sh test
	scripts/compose.sh
	cargo test --locked --workspace

demo: build ## Train a small study here, in under four minutes
	mkdir -p target/demo
	$(BIN)/elastune demo --report target/demo/report.json

images: build ## Make the container images of docker-compose.yml from the programs built here
	scripts/prebuilt.sh
	PROGRAMS=prebuilt docker compose build

bench-sim: setup ## Figures of the simulator: fluid against fifo, the time of a decision
	cargo run --locked --quiet -p bench-brain --bin sim

bench-brain: setup ## Figures of the policies on simulated clusters
	cargo run --locked --quiet -p bench-brain --bin brain -- $(PART)

bench-resize: build ## The pause of a resize, against torchrun elastic
	$(BIN)/resize

fmt: ## Format everything
	cargo fmt --all
	scripts/web.sh format

bench-search: setup ## Regret of each searcher beside Optuna's; PART=tpe,cmaes,gp,nsga2,speed for some
	cargo build --locked --quiet -p elastune-core -p bench-search
	OMP_NUM_THREADS=1 "$$(bench/search/venv.sh)/bin/python" bench/search/run.py $(BIN)/bench-search

openapi: build ## Write the OpenAPI document and the page's types anew
	$(BIN)/elastune-service openapi > service/openapi.json
	scripts/web.sh types

sqlx: setup ## Write service/.sqlx anew from the queries and migrations
	scripts/sqlx.sh

clean: ## Remove what was built (the caches of libtorch and packages stay)
	rm -rf target web/dist
	cargo clean
