# Every target works from a fresh clone and needs no root. What it makes lies in this folder, but for Go's own caches: without
# vendor/ the first build needs the network once, for the modules that go.sum pins. interop and versus say what they install
# themselves.
SHELL := /bin/bash
GO ?= go
BIN := bin/tidemark
SUITE ?= quick
OUT ?= run-$(shell date -u +%Y%m%d-%H%M%S)
FUZZTIME ?= 30s
ROUNDS ?= 50

# Go ends a package's tests after 10 minutes by default; a slow host is no failure.
LONG := -timeout 20m

# The scripts and the tests build with the same Go.
export GO
GOFMT = $(shell $(GO) env GOROOT)/bin/gofmt

# Tests of real processes start what `make build` made, unless they are told another.
WITH_BIN = TIDEMARK_BIN=$${TIDEMARK_BIN:-$(CURDIR)/$(BIN)}

# The race detector needs a C compiler; without one the tests run all the same and say so.
CC_FOUND := $(shell command -v $${CC:-cc} 2>/dev/null)

.PHONY: help build bench test lint fmt interop versus fuzz soak crash worst scale lies method layouts stress-new clean
.DEFAULT_GOAL := help

help: ## what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/tidemark, one static binary
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) .

bench: build ## the main job: the quick suite on an embedded broker, ends with the path of an HTML report
	./$(BIN) bench run $(SUITE) --out $(OUT)

test: build ## every test that needs only Go, with assertions on; then the race detector where there is a C compiler
	$(WITH_BIN) $(GO) test $(LONG) -tags invariants ./...
ifeq ($(CC_FOUND),)
	@echo "no C compiler found: the race detector did not run"
else
	CGO_ENABLED=1 $(GO) test $(LONG) -race -short -run 'TestReadersBesideEverything' ./core/commitlog
	CGO_ENABLED=1 $(GO) test $(LONG) -race -short ./core/buf ./core/clock ./core/vfs/... ./broker/internal/... ./loadgen/... ./profiles/...
endif

lint: ## gofmt, vet, staticcheck at its pinned version, scripts/tidy
	@out=$$($(GOFMT) -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt differs, run make fmt:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags invariants ./...
	@mkdir -p bin
	$(GO) -C scripts/tools build -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	./bin/staticcheck -checks 'all,-ST1000,-ST1003,-ST1016' ./...
	$(GO) test -count=1 ./scripts/tidy

fmt: ## gofmt every file
	$(GOFMT) -w $$(git ls-files '*.go')

interop: build ## clients of other languages and Apache Kafka's own tools against the broker (installs them itself)
	scripts/interop/run

versus: build ## this broker beside Apache Kafka (brought here by scripts/kafka): about an hour; VERSUS=--quick for 8 minutes
	./$(BIN) bench versus --out $(OUT) $(VERSUS)

fuzz: ## every fuzz target for FUZZTIME each
	scripts/fuzz $(FUZZTIME)

lies: ## breaks the measuring on purpose, twelve ways, and shows the test that catches each (scripts/lies)
	scripts/lies

method: ## METHOD 9's tests in their long forms: 1 s of 60 frozen, a freeze of 65 s
	TIDEMARK_METHOD=long $(GO) test -count=1 -timeout 0 -run 'TestAFreezeShifts|TestAStallOfOver' -v ./loadgen

crash: build ## ROUNDS of kill -9 under acks=all traffic: nothing acknowledged may be lost
	$(WITH_BIN) TIDEMARK_CRASH_ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 0 -run 'TestKill' -v ./broker/e2e

worst: build ## the worst valid frame of each API from eight connections at once: memory stays bounded
	$(WITH_BIN) TIDEMARK_WORST=1 $(GO) test -count=1 -timeout 0 -run TestTheWorstValidFrame ./broker/internal/servertest

soak: build ## ten minutes of mixed load with restarts, memory and data checked
	$(WITH_BIN) TIDEMARK_SOAK=10m $(GO) test -count=1 -timeout 0 -run 'TestSoak' -v ./broker/e2e

scale: build ## 100,000 partitions, 10,000 segments, 1,000 clients at once, retention under load: a table of figures of each
	$(WITH_BIN) TIDEMARK_SCALE=full $(GO) test -count=1 -timeout 0 -run 'TestScale' -v ./broker/e2e

layouts: ## bin/layout-1 to -3: the same program, its code laid out by other seeds; bench run --build takes all three
	@mkdir -p bin
	for seed in 1 2 3; do CGO_ENABLED=0 $(GO) build -trimpath -ldflags=-randlayout=$$seed -o bin/layout-$$seed . || exit 1; done

stress-new: ## each test added since main~1 a hundred times
	scripts/stress-new

clean:
	rm -rf bin .cache/test-bin
