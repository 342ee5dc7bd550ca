# Everything happens in .venv, which tools/setup.sh makes on first use, or in the conda environment `wmlab` when
# that is activated. See docs/development.md for PYTHON, WMLAB_ENV and the *_ARGS.

WMLAB_ENV ?= $(if $(filter wmlab,$(notdir $(CONDA_DEFAULT_ENV))),$(CONDA_PREFIX))
BIN := $(or $(WMLAB_ENV),.venv)/bin
PY := $(BIN)/python
ROOT_MAY := $(if $(filter 0,$(shell id -u)),--allow-root)
FIRST := notebooks/tutorials/00_first_bounds.ipynb
TOOLS := .wmlab/tools
UV = PYTHONPATH="$(CURDIR)/$(TOOLS)" $(PY) -m uv pip compile --quiet --universal --annotation-style line \
	--custom-compile-command "make lock"
WORKERS ?= 2
TARGET ?= local-cluster
PYTEST = $(PY) -m pytest -n $(WORKERS)
UNIT_TESTS = $(PYTEST) --dist worksteal -p no:nbval
NOTEBOOK_TESTS = $(PYTEST) --dist loadfile
export PYTHON WMLAB_ENV

# Java for short runs: the first compiler only, one collector thread and no verification of the classes of Spark's jars
# take less than half of the processor time. With that compiler alone Java has room for 48 MB of code, which a long run
# of tests fills; then it compiles again and again, and at last fails.
check test test-long cluster mutate: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m \
	-XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote

# On so few rows Spark spends more on generating and compiling code for a query, on planning it again after each of its
# stages, and on every partition, than on running it.
check test test-long mutate: export PYSPARK_SUBMIT_ARGS ?= --conf spark.sql.codegen.wholeStage=false \
	--conf spark.sql.codegen.factoryMode=NO_CODEGEN --conf spark.sql.adaptive.enabled=false \
	--conf spark.sql.shuffle.partitions=2 --driver-memory 1500m pyspark-shell

# Where this is set, each of the kernels of the notebooks would compile wmlab again.
check test test-long mutate: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup lab check lint test test-long fresh mutate cluster bench notebooks docs oracles lock clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## set everything up, which all others do first
	@sh tools/setup.sh

lab: setup ## open JupyterLab on the first tutorial; LAB_ARGS="--no-browser --port 8899"
	@-$(BIN)/jupyter-trust notebooks/*/*.ipynb >/dev/null 2>&1
	@JUPYTER_CONFIG_PATH="$(CURDIR)/tools/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
		$(PY) -m jupyterlab $(ROOT_MAY) --ip=127.0.0.1 --ServerApp.root_dir="$(CURDIR)" \
		--LabApp.workspaces_dir="$(CURDIR)/.wmlab/workspaces" --LabApp.default_url=/lab/tree/$(FIRST) $(LAB_ARGS)

check: lint ## lint, types, the tests of the models and one of each other folder; without Spark, at most 90 s
	$(UNIT_TESTS) --check

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

test: lint ## run the unit tests and the notebooks; TEST_ARGS="-k sound" picks unit tests; WORKERS=4
	$(UNIT_TESTS) $(TEST_ARGS)
	$(NOTEBOOK_TESTS) notebooks

test-long: lint ## the same with every random case in full, further JVMs, and all tutorials in a browser
	$(UNIT_TESTS) --long $(TEST_ARGS)
	$(NOTEBOOK_TESTS) notebooks

fresh: ## run make test of the committed tree on a bare Debian 13, in a chroot; needs root and 25 minutes; FRESH_DIR=DIR
	@sh tools/fresh_machine.sh $(FRESH_DIR)

mutate: setup ## break lines of the rules and count how many of these mutants the tests notice; MUTATE_ARGS="--lines 100"
	$(PY) -m tools.mutate $(MUTATE_ARGS)

cluster: setup ## everything of Spark on a cluster of this machine; TARGET=local-cluster, standalone or connect
	PYTHONPATH="$(CURDIR)" $(PY) -m tests.clusters $(TARGET)

bench: setup ## measure side by side with the peers; BENCH_ARGS="bounds --rows 1000000"
	$(PY) -m benchmarks $(BENCH_ARGS)

notebooks: setup ## execute all notebooks again and store them; NOTEBOOKS="FILE ..." picks some
	$(PY) -m tools.notebooks $(NOTEBOOKS)

oracles: setup ## compare the rules of strategies with Flink and Beam; FLINK=DIRECTORY BEAM=DIRECTORY, see tools/oracles.py
	$(if $(FLINK)$(BEAM)$(FLINK_RUNS)$(SPARK_RUNS),,$(error give FLINK=DIRECTORY, BEAM=DIRECTORY, FLINK_RUNS=DIRECTORY or SPARK_RUNS=all, see tools/oracles.py))
	$(if $(SPARK_RUNS),PYTHONPATH="$(CURDIR)" $(PY) tools/spark_runs.py data/engine_logs/spark $(filter-out all,$(SPARK_RUNS)))
	$(if $(FLINK_RUNS),PYTHONPATH="$(CURDIR)" $(PY) tools/flink_runs.py "$(FLINK_RUNS)" data/engine_logs/flink $(RUNS))
	$(if $(FLINK),PYTHONPATH="$(CURDIR)" $(PY) tools/oracles.py flink "$(FLINK)" $(ORACLES_ARGS))
	$(if $(FLINK),PYTHONPATH="$(CURDIR)" $(PY) tools/flink_lines.py "$(FLINK)")
	$(if $(BEAM),PYTHONPATH="$(CURDIR)" "$(BEAM)/bin/python" tools/oracles.py beam "$(BEAM)" $(ORACLES_ARGS))

docs: setup $(TOOLS)/installed ## build the site in .wmlab/site, a warning is an error; DOCS_ARGS="-E" reads every page again
	PYTHONPATH="$(CURDIR)/$(TOOLS)" $(PY) -m sphinx --fail-on-warning --keep-going --quiet -c docs $(DOCS_ARGS) . .wmlab/site
	@echo "The site is .wmlab/site/index.html. For its search: $(PY) -m http.server -d .wmlab/site"

lock: setup $(TOOLS)/installed ## resolve pyproject.toml into both requirements.txt; LOCK_ARGS="--upgrade-package plotly" moves a pin
	$(UV) $(LOCK_ARGS) pyproject.toml --group test --group bench --group browser --output-file requirements.txt
	$(UV) $(LOCK_ARGS) --python-version 3.11 --group docs --group lock --constraint requirements.txt \
		--output-file tools/requirements.txt

# What only these two need is installed beside the environment, which holds the pins of requirements.txt and no more.
$(TOOLS)/installed: tools/requirements.txt | setup
	rm -rf $(TOOLS)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --target $(TOOLS) -r tools/requirements.txt
	touch $@

clean: ## remove .venv and everything that can be made again
	rm -rf .venv .wmlab docs/reference docs/sections build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	find . -name __pycache__ -prune -exec rm -rf {} +
