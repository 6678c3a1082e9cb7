# Every target is one line of work; what it does is in tools/ or tests/.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
STACK ?= local
IMAGE ?= 0
FRAMEWORK ?= pytorch
PYTEST_FLAGS ?=
# What was said on the command line, as flags: a KUBECONFIG of the shell must not turn `local` to another cluster.
given = $(if $(filter command,$(origin $1)),'--$2=$($1)')
WHERE = --stack=$(STACK) $(call given,KUBECONFIG,kubeconfig) $(call given,CONTEXT,context) $(call given,NAMESPACE,namespace)
# Most tests wait for a cluster or a provider: four processes share them, each takes whole files, and all files that use
# the environment of `make up` are one piece of work (tests/conftest.py), the longest, so it is among the first. Those
# that compare the machine before and after run alone, at the end.
ALONE := tests/cluster/test_local_cluster_down.py tests/faults/test_make_down.py
SHARED := -n 4 --dist loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%) \
	tests/cloud tests/cluster tests/unit/trainer_tf tests/engine tests/faults tests/unit tests/manifests

.PHONY: help up down stop status why logs search-logs dashboards rerun predict preview recover image tools venv check test test-fast bench lock

help: ## Show what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

up: venv ## Start the local cluster, the platform, train the example, serve it
	@$(PYTHON) -m tools up

down: venv ## Remove everything that `up` started or wrote (the cache stays)
	@$(PYTHON) -m tools down && rm -f .venv

stop: venv ## Stop the local cluster, keep its state for the next `up`
	@$(PYTHON) -m tools stop

status: venv ## What runs where: make status STACK=dev CONTEXT=my-cluster
	@$(PYTHON) -m tools status $(WHERE)

why: venv ## Why a job does not run: make why JOB=digits-training
	@$(PYTHON) -m tools why $(WHERE) "$(JOB)"

logs: venv ## Logs of all pods of a job, gone or not: make logs JOB=digits-training FOLLOW=1
	@$(PYTHON) -m tools logs $(WHERE) $(if $(FOLLOW),--follow) $(if $(TIMESTAMPS),--timestamps) $(if $(PAST),--past) "$(JOB)"

# The query goes through the environment, where no shell reads its quotes.
search-logs: venv ## Search the logs of everything: make search-logs QUERY='error' SINCE=1h
	@$(PYTHON) -m tools search-logs $(WHERE) $(call given,SINCE,since) $(call given,LIMIT,limit)

dashboards: venv ## Draw the dashboards as pages: make dashboards MINUTES=60 PROMETHEUS=localhost:9090
	@$(PYTHON) -m tools dashboards $(WHERE) $(call given,PROMETHEUS,prometheus) $(call given,MINUTES,minutes) \
		$(call given,JOB,job) $(call given,SERVICE,service)

rerun: venv ## Run an ended job again: make rerun JOB=digits-training
	@$(PYTHON) -m tools rerun $(WHERE) $(if $(FORCE),--force) "$(JOB)"

predict: venv ## Ask the served model about a held-out digit: make predict IMAGE=42
	@$(PYTHON) -m tools predict $(IMAGE)

preview: venv ## What `pulumi up` would change: make preview STACK=local
	@$(PYTHON) -m tools preview $(STACK)

recover: venv ## After a killed `pulumi up`: find what it made, take it over: make recover STACK=dev
	@$(PYTHON) -m tools recover $(STACK)

image: venv ## Build and load the image of a framework's jobs: make image FRAMEWORK=tensorflow
	@$(PYTHON) -m tools image $(FRAMEWORK)

tools: venv ## Get every tool and put pulumi and kubectl into .venv/bin
	@$(PYTHON) -m tools tools

venv:
	@tools/bootstrap.sh

check: venv ## Lint, format and types
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/basedpyright

test: check tools ## Everything: unit, manifests, engine, cloud, cluster, faults
	@$(PYTHON) -m pytest $(SHARED) $(PYTEST_FLAGS)
	@$(PYTHON) -m pytest $(ALONE) $(PYTEST_FLAGS)

test-fast: check ## Without engine and cluster: seconds
	@$(PYTHON) -m pytest -n 3 --dist loadfile tests/unit tests/manifests $(PYTEST_FLAGS)

bench: venv ## Time what the docs state, as one table
	@$(PYTHON) -m benchmarks

lock: venv ## Pin requirements.in and trainer/requirements*.in anew, and write docs/settings.md and docs/dashboards.md
	@$(PYTHON) -m tools.lock && $(PYTHON) -m tools.settings_reference && $(PYTHON) -m tools.dashboards.reference \
		&& $(PYTHON) -m tools.cost
