# Every way to build, run and test the project. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Datapath width of `make sim`: 64 to 4096 bits, a power of two.
W ?= 512
# Arguments passed on: make mutants ARGS="add_or", make demo ARGS="--seed 7".
ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  W=$(W) (64 to 4096) is the datapath width of make sim; ARGS=... goes to the program run"

.PHONY: setup
setup: ## install every tool of scripts/versions (Debian 12; root or sudo)
	@scripts/setup

.PHONY: generate
generate: ## write the generated files (constants, registers) anew from rtl/spec
	@scripts/setup gen
	go run ./scripts/generate
	scripts/generate-csr
	go generate ./...

.PHONY: sim
sim: ## build the simulator of the engine: build/sim/w<W>/inc_sim
	@scripts/setup sim
	scripts/build-sim $(W)

.PHONY: epic
epic: build/epic ## build the command line: build/epic

# go build knows better than make what is out of date.
.PHONY: build/epic
build/epic:
	@mkdir -p build
	go build -o build/epic ./cmd/epic

.PHONY: demo
demo: ## four ranks' gradients, as real RoCE frames, through the Verilog engine; results in build/demo
	@scripts/setup sim
	@$(MAKE) --no-print-directory build/epic
	scripts/build-sim 512
	build/epic demo --out build/demo $(ARGS)

.PHONY: bench
bench: ## clocks per second of the co-simulation: bare, with every check, and of a cocotb bench without any
	@scripts/setup sim test
	@$(MAKE) --no-print-directory build/epic
	scripts/build-sim 512
	scripts/cocotb-bench --data-w 512
	build/epic bench cosim --cocotb scripts/cocotb-bench --json $(ARGS)

.PHONY: regress
regress: ## every line of the regression and every case of the matrix: hours; ARGS="--engine slurm --shards 64"
	@scripts/setup sim
	@$(MAKE) --no-print-directory build/epic
	scripts/regress 64 128 256 512 1024 2048
	scripts/regress 4096
	for build in CUT_THROUGH=0 MODE2=0 MODE3=0 FLOAT=0 "ENDPOINTS=4096 PIPES=256"; do scripts/regress 64 $$build || exit; done
	build/epic cosim matrix --whole $(ARGS)

.PHONY: coverage
coverage: ## what the regression reaches of the RTL's lines and branches, and of all that can happen; resumes; ARGS=--write
	@scripts/setup sim
	@$(MAKE) --no-print-directory build/epic
	scripts/coverage --self-test
	scripts/coverage $(ARGS) 64 512

.PHONY: faults
faults: ## each fault at each frame of short collectives, golden and RTL: half an hour; ARGS="--mode 3"
	@scripts/setup sim
	@$(MAKE) --no-print-directory build/epic
	scripts/build-sim 64
	build/epic cosim faults --data-w 64 $(ARGS)

.PHONY: lab-full
lab-full: ## every case of the lab's matrix, and AllReduce of 64 MB against the ring; root; resumes
	@$(MAKE) --no-print-directory build/epic
	build/epic lab matrix --whole $(ARGS)
	build/epic bench lab --ranks 4 --link-gbps 0.02 --min-ratio 0.85
	build/epic bench lab --ranks 8 --link-gbps 0.01 --min-ratio 0.85

.PHONY: mutants
mutants: ## break the RTL in each way of rtl/mutants and see the regression catch it; resumes
	@scripts/setup sim
	@$(MAKE) --no-print-directory build/epic
	scripts/mutants $(ARGS)

.PHONY: proof
proof: ## prove the RTL (rtl/formal), and see each proof find its mutants; what has passed is not run again
	@scripts/setup synth proof
	scripts/prove $(ARGS)

.PHONY: proof-full
proof-full: ## the same with the deeper bounds; resumes
	@scripts/setup synth proof
	scripts/prove --full $(ARGS)

.PHONY: interop
interop: ## guests with Linux's RoCE stack as ranks, through the golden and the Verilog engine: a pairwise slice; resumes
	@scripts/setup sim interop
	@$(MAKE) --no-print-directory build/epic
	scripts/build-sim 512
	build/epic interop --latency $(ARGS)

.PHONY: interop-full
interop-full: ## the same with every combination: hours; resumes
	@$(MAKE) --no-print-directory interop ARGS="--whole $(ARGS)"

.PHONY: tla
tla: ## TLC on every configuration of the TLA+ specifications; ARGS="III-ar" for some of them
	@scripts/setup tla
	@$(MAKE) --no-print-directory build/epic
	scripts/tla --beside --min-rate 3 $(ARGS)

.PHONY: fuzz
fuzz: ## every fuzz target of the Go code for 30 s each; ARGS="--time 10m FuzzFrames" for one of them
	@scripts/fuzz $(ARGS)

.PHONY: check
check: ## the quick tests, under 5 minutes
	@scripts/run-stages check

.PHONY: test
test: ## every test, and where the time went
	@scripts/run-stages test

.PHONY: lint
lint: ## Verilator lint of the RTL, all warnings, every width
	@scripts/setup sim test
	scripts/lint-rtl
	scripts/lint-verible

.PHONY: synth-elab
synth-elab: ## elaborate the RTL with Yosys at every width, by both front ends
	@scripts/setup synth
	scripts/synth-elab

.PHONY: synth-report
synth-report: ## size and clock of the engine on an ECP5-85, 10 to 40 minutes a width; resumes
	@scripts/setup synth
	scripts/synth-report $(ARGS)

.PHONY: mode-share
mode-share: ## how much of Mode-III is Mode-II's, in lines and cells
	@scripts/setup synth
	scripts/mode-share $(ARGS)

.PHONY: clean
clean: ## remove build/ (the tools in .tools stay)
	rm -rf build
