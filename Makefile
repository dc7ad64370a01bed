# Everything a contributor or CI runs. The README explains the first two: `make run` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN      := bin
TOOLS    := $(CURDIR)/.cache/tools
GOFUMPT  := $(TOOLS)/gofumpt
LINT     := $(TOOLS)/golangci-lint
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
FUZZTIME ?= 20s
SEEDS    ?=
ATONCE   ?= 6
GOFUMPT_VERSION := v0.12.0
LINT_VERSION    := v2.15.0

.PHONY: help build run check test parity race fuzz bench soak cross unit plain recorded lint fmt clients tools clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

build: ## build bin/raftsman
	@command -v go >/dev/null || { echo 'raftsman needs Go 1.26 or newer to build: https://go.dev/dl'; exit 1; }
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/raftsman ./cmd/raftsman

run: build ## build and serve on localhost:9092, data in ./raftsman-data
	$(BIN)/raftsman serve

fmt: $(GOFUMPT) ## format the Go code
	$(GOFUMPT) -w $$(git ls-files '*.go')

lint: $(GOFUMPT) $(LINT)
	@unformatted=$$($(GOFUMPT) -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(LINT) run --timeout 5m --allow-parallel-runners ./...

unit:
	go test ./...

check: lint unit recorded ## the fast gate: format, lint, layout, unit tests, Kafka's recorded answers

recorded:
	cd test && go vet ./... && go test ./parity

# The unit tests that the race detector leaves out, or has with fewer seeds.
plain:
	go test $$(grep -rl --include='*_test.go' '^//go:build !race' broker* cmd internal | xargs -n1 dirname | sort -u | sed 's,^,./,')

race: ## all unit tests under the race detector
	go test -race -p $(ATONCE) ./...

cross: ## build and vet for every platform
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do \
	  echo "$$target"; GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 go build -o /dev/null ./cmd/raftsman && \
	  GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 go vet ./... || exit 1; done

parity: ## ask Apache Kafka 4.4 all that test/parity asks, record its answers, write docs/compatibility.md, show what changed, and compare random requests
	cd test && go test ./parity -count=1 -timeout 20m -record
	git --no-pager diff --stat -- test/parity/testdata docs/compatibility.md
	git --no-pager diff -- test/parity/testdata docs/compatibility.md
	cd test && go test ./parity -count=1 -timeout 20m -kafka -run TestRandomRequests

clients: build ## install what the client tests need (released packages, nothing global but apt's when root)
	test/setup

# Tests of processes mostly wait, for JVMs, disks and sessions: so more of them run at once than there are processors.
test: lint race plain recorded cross clients ## everything, as CI runs it
	cd test && RAFTSMAN_BIN=$(CURDIR)/$(BIN)/raftsman RAFTSMAN_PARITY_KAFKA=1 go test -count=1 -timeout 20m -parallel $(ATONCE) ./...
	$(MAKE) fuzz FUZZTIME=3s

fuzz: ## every fuzz target for FUZZTIME (20s) each
	scripts/fuzz $(FUZZTIME)

bench: build ## ratios against Apache Kafka 4.4 in the same run
	bench/run

soak: build ## full durations and seed counts; the log goes to docs/proof
	scripts/soak

$(GOFUMPT):
	GOBIN=$(TOOLS) go install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)

$(LINT):
	@echo 'building golangci-lint once; this takes some minutes'
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

tools: $(GOFUMPT) $(LINT)

clean: ## remove what was built
	rm -rf $(BIN) .cache
