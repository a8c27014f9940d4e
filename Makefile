# The one entry point, for people and for CI: each verb does its own set-up.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# The first interpreter that is new enough and can make a virtual environment.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)

VENV := .venv
READY := $(VENV)/.ready
RUN := $(VENV)/bin/python -m
BARE := .venv-bare
CONNECTOR := .venv-connector
YARN := build/yarn
KUBERNETES := build/kubernetes
PROTOC := .venv-protos
PINS := .venv-pins
PROTO_DIR := airflow_provider_lancerefs/refstore/_proto
PROTO_OUT ?= .
ARGS ?=
AIRFLOW ?= 3.1.8
OLDER := .venv-airflow-$(AIRFLOW)
EXTRAS := airflow-spark,aws,kubernetes,openlineage,s3,spark

.PHONY: help
help:  ## list the verbs
	@echo 'make VERB [ARGS="passed on by test and bench"]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(READY)  ## create .venv, or bring it in line with pyproject.toml and constraints.txt

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer with ensurepip found; set PYTHON" >&2; exit 1; }
	$(VENV)/bin/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(RUN) pip install -q -c constraints.txt pip
	$(RUN) pip install -q -c constraints.txt --group dev
	$(RUN) pip install -q -c constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

.PHONY: test
test: $(READY)  ## everything that needs no more than this machine
	$(RUN) pytest -n 2 $(ARGS)

# Of an older Airflow nothing is newer than what is pinned, and much is older.
$(OLDER)/.ready: pyproject.toml constraints.txt | $(READY)
	$(RUN) venv --clear $(OLDER)
	sed -E '/^apache-airflow(-core|-task-sdk)?==/d; s/==/<=/' constraints.txt > $(OLDER)/constraints.txt
	$(OLDER)/bin/python -m pip install -q -c constraints.txt pip
	$(OLDER)/bin/python -m pip install -q -c $(OLDER)/constraints.txt \
		--group build --group test 'apache-airflow==$(AIRFLOW)'
	$(OLDER)/bin/python -m pip install -q -c $(OLDER)/constraints.txt \
		--no-build-isolation -e '.[airflow-spark,aws,kubernetes,openlineage,s3]' 'apache-airflow==$(AIRFLOW)'
	@touch $@

.PHONY: test-airflow
test-airflow: $(OLDER)/.ready  ## the provider on an older Airflow: AIRFLOW=3.1.8
	$(OLDER)/bin/python -m pytest -n 2 -W default -m 'airflow and not spark' tests/airflow $(ARGS)

.PHONY: check
check: $(READY)  ## ruff, format, mypy, codespell
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(VENV)/bin/codespell

.PHONY: fmt
fmt: $(READY)  ## format, and mend what ruff can mend
	$(RUN) ruff check --fix-only
	$(RUN) ruff format

.PHONY: test-bare
test-bare: $(READY)  ## the wheel alone in a new environment, without Airflow or Spark
	rm -rf $(BARE) build/wheel
	$(RUN) pip wheel -q --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(RUN) venv $(BARE)
	$(BARE)/bin/python -m pip install -q -c constraints.txt pip
	$(BARE)/bin/python -m pip install -q -c constraints.txt build/wheel/*.whl
	$(BARE)/bin/python -I tests/architecture/bare_install.py

$(CONNECTOR)/.ready: pyproject.toml constraints.txt | $(READY)
	$(RUN) venv --clear $(CONNECTOR)
	grep -v '^pyspark' constraints.txt > $(CONNECTOR)/constraints.txt
	$(CONNECTOR)/bin/python -m pip install -q -c $(CONNECTOR)/constraints.txt pip setuptools
	$(CONNECTOR)/bin/python -m pip install -q -c $(CONNECTOR)/constraints.txt --group connector
	$(CONNECTOR)/bin/python -m tests.connector.sessions
	@touch $@

.PHONY: connector-jar
connector-jar: $(CONNECTOR)/.ready  ## an environment of Spark 3.5, and the connector's jar as Spark fetches it

.PHONY: connector
connector: $(CONNECTOR)/.ready  ## what goes through the JVM connector, on Spark 3.5, with the jar that Spark fetches
	$(CONNECTOR)/bin/python -m pytest tests/connector $(ARGS)

$(YARN)/.ready: pyproject.toml constraints.txt tests/services/yarn.py | $(READY)
	rm -rf $(YARN)
	$(RUN) tests.services.yarn
	@touch $@

.PHONY: yarn
yarn: $(YARN)/.ready  ## jobs on a real YARN, in client and in cluster mode, of jars that Spark fetches
	$(RUN) pytest tests/yarn $(ARGS)

$(KUBERNETES)/.ready: pyproject.toml constraints.txt tests/services/kubernetes.py | $(READY)
	rm -rf $(KUBERNETES)
	$(RUN) tests.services.kubernetes
	@touch $@

.PHONY: kubernetes
kubernetes: $(KUBERNETES)/.ready  ## jobs on a Kubernetes without containers, in client and in cluster mode
	$(RUN) pytest tests/kubernetes $(ARGS)

.PHONY: bench
bench: $(READY)  ## the benchmark report
	$(RUN) tests.bench $(ARGS)

.PHONY: demo
demo: $(READY)  ## write, audit, publish, three times on this machine: a good run, a bad one, a retried one
	$(RUN) example_dags.demo

$(PROTOC)/.ready: pyproject.toml | $(READY)
	$(RUN) venv --clear $(PROTOC)
	$(PROTOC)/bin/python -m pip install -q -c constraints.txt pip
	$(PROTOC)/bin/python -m pip install -q --group protos
	@touch $@

.PHONY: protos
protos: $(PROTOC)/.ready  ## regenerate the protobuf modules from their .proto files
	mkdir -p $(PROTO_OUT)
	$(PROTOC)/bin/python -m grpc_tools.protoc --proto_path=. \
		--python_out=$(PROTO_OUT) --pyi_out=$(PROTO_OUT) $(PROTO_DIR)/*.proto
	@for file in $(PROTO_OUT)/$(PROTO_DIR)/*_pb2.py*; do \
		{ echo '# Generated by `make protos` from the .proto file beside it. Do not edit.'; cat $$file; } \
			> $$file.tmp && mv $$file.tmp $$file; \
	done

.PHONY: protos-check
protos-check:  ## fail when the protobuf modules are not what `make protos` makes
	rm -rf build/protos
	$(MAKE) protos PROTO_OUT=build/protos
	diff -rq -x __init__.py -x __pycache__ -x '*.proto' $(PROTO_DIR) build/protos/$(PROTO_DIR)

.PHONY: pins
pins:  ## write constraints.txt anew, with the newest versions that fit together
	$(PYTHON) -m venv --clear $(PINS)
	$(PINS)/bin/python -m pip uninstall -q -y setuptools  # some Pythons bring an old one
	$(PINS)/bin/python -m pip install -q --upgrade pip
	$(PINS)/bin/python -m pip install -q --group dev -e '.[$(EXTRAS)]'
	{ \
		echo '# Everything the development environment holds, as resolved by the oldest supported Python.'; \
		echo '# Written by `make pins`: to change a version, change its bound in pyproject.toml and run that.'; \
		$(PINS)/bin/python -m pip freeze -q --all --exclude-editable; \
	} > $(PINS)/constraints.txt
	mv $(PINS)/constraints.txt constraints.txt
	rm -rf $(PINS)

.PHONY: clean
clean:  ## remove environments, builds and caches
	rm -rf .venv .venv-* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
