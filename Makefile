# Every target is one line of work; what it does is in tools/ or tests/.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# With PyTorch, TensorFlow, pytest and the linters, which nothing but tests and checks need.
TEST_PYTHON := .venv-test/bin/python
STACK ?= local
IMAGE ?= 0
FRAMEWORK ?= pytorch
PICTURES ?= dashboard up
PYTEST_FLAGS ?=
# What was said on the command line, as flags: a KUBECONFIG of the shell must not turn `local` to another cluster.
given = $(if $(filter command,$(origin $1)),'--$2=$($1)')
option = $(if $(filter command,$(origin $1)),'--option=--$2=$($1)')
# Containers often forbid bytecode; then each start of Python compiles all that it imports, half of its time.
export PYTHONDONTWRITEBYTECODE :=
WHERE = --stack=$(STACK) $(call given,KUBECONFIG,kubeconfig) $(call given,CONTEXT,context) $(call given,NAMESPACE,namespace)
# Four processes share the tests, each takes whole files, and all files that use one of the two environments of `make up`
# are one piece of work. These are the longest, so they are among the first; next to them, one process runs what needs no
# cluster (tests/conftest.py). What compares the machine before and after runs alone, at the end.
ALONE := tests/cluster/test_local_cluster_down.py
SHARED := -n 4 --dist loadfile --no-loadscope-reorder $(ALONE:%=--ignore=%) \
	tests/cloud tests/cluster tests/unit/trainer/tf tests/engine tests/faults tests/unit tests/manifests

.PHONY: help up down stop status why logs search-logs dashboards rerun predict pictures preview review recover leftovers acceptance image tools engine venv venv-test venv-policies check test test-fast mutants bench audit sbom lock release

help: ## Show what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

up: venv ## Start the local cluster, the platform, train the example, serve it
	@$(PYTHON) -m tools up

down: venv ## Remove everything that `up` started or wrote (the cache stays)
	@$(PYTHON) -m tools down && rm -f .venv .venv-test .venv-policies

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

rerun: venv ## Run an ended job again, with its newest code: make rerun JOB=digits-training COMMIT=same
	@$(PYTHON) -m tools rerun $(WHERE) $(if $(FORCE),--force) $(call given,COMMIT,commit) "$(JOB)"

predict: venv ## Ask the served model about a held-out digit: make predict IMAGE=42
	@$(PYTHON) -m tools predict $(IMAGE)

pictures: venv ## Draw the pictures of the README from the environment of `up`: make pictures PICTURES=dashboard
	@$(PYTHON) -m tools pictures $(PICTURES)

preview: venv venv-policies ## What `pulumi up` would change, and whether policies allow it: make preview STACK=local
	@$(PYTHON) -m tools preview $(STACK)

review: venv venv-policies ## The same as one Markdown report: make review STACKS='dev prod' OUTPUT=report.md FAIL_ON=replace
	@$(PYTHON) -m tools review $(or $(STACKS),$(STACK)) $(call option,OUTPUT,output) $(call option,FAIL_ON,fail-on) \
		$(call option,PRICES,prices) $(call option,KUBECONFIG,kubeconfig) $(call option,CONTEXT,context)

recover: venv ## After a killed `pulumi up`: find what it made, take it over: make recover STACK=dev MINUTES=5
	@$(PYTHON) -m tools recover $(call given,MINUTES,minutes) $(STACK)

leftovers: venv ## After `pulumi destroy`: what still exists in the account: make leftovers STACK=dev
	@$(PYTHON) -m athanor leftovers $(STACK)

acceptance: venv ## Try all of it on a real account, from nothing to nothing: make acceptance STACK=dev YES=1 KEEP=1 POOLS=a10
	@$(PYTHON) -m tools acceptance $(if $(YES),--yes) $(if $(KEEP),--keep) $(call given,POOLS,pools) $(STACK)

image: venv ## Build and load the image of a framework's jobs: make image FRAMEWORK=tensorflow
	@$(PYTHON) -m tools image $(FRAMEWORK)

tools: venv ## Get every tool and put pulumi and kubectl into .venv/bin: make tools ENGINE=pulumi-with-clouds
	@$(PYTHON) -m tools tools $(call given,ENGINE,engine)

engine: venv venv-policies ## Get what previews and updates of stacks need, as pipelines do: make engine STACKS='dev prod'
	@$(PYTHON) -m tools engine $(or $(STACKS),$(STACK))

venv:
	@tools/bootstrap.sh

venv-test:
	@tools/bootstrap.sh test

venv-policies:
	@tools/bootstrap.sh policies

check: venv-test venv-policies ## Lint, format, types, the layers of imports, and the words that we do not use
	@.venv-test/bin/ruff check . && .venv-test/bin/ruff format --check . && .venv-test/bin/basedpyright \
		&& .venv-test/bin/basedpyright --project policies \
		&& .venv-test/bin/lint-imports --no-cache --no-logo && $(TEST_PYTHON) -m tools.prose

# Programs that only tests need are built from the same packages as the others.
test: export ATHANOR_KEEP_GO := 1
test: check tools ## Everything: unit, manifests, engine, cloud, cluster, faults
	@$(TEST_PYTHON) -m tests.whole_run $(SHARED) $(PYTEST_FLAGS)
	@$(TEST_PYTHON) -m pytest $(ALONE) $(PYTEST_FLAGS)

test-fast: venv-test venv-policies ## `check` with unit and manifest tests: minutes, with Python packages alone
	@$(TEST_PYTHON) -m tests.fast_run $(PYTEST_FLAGS)

mutants: venv-test ## Break infra/ and workloads/ at every place, list what no test notices: make mutants ONLY='infra.queues*'
	@$(TEST_PYTHON) -m mutmut run $(if $(ONLY),'$(ONLY)') && $(TEST_PYTHON) -m mutmut results

bench: venv-test ## Time what the docs state, as one table
	@$(TEST_PYTHON) -m benchmarks

audit: venv-test ## Ask for known vulnerabilities of every pinned Python package: make audit SERVICE=osv
	@$(TEST_PYTHON) -m tools.upkeep.audit $(call given,SERVICE,service)

sbom: venv-test ## List what images, environments and programs are made of (CycloneDX): make sbom FOLDER=/tmp/sbom
	@$(TEST_PYTHON) -m tools.sbom $(if $(FOLDER),'$(FOLDER)')

lock: venv ## Pin all *.in files again, and write what docs/ has from the code
	@$(PYTHON) -m tools.upkeep.lock && $(PYTHON) -m tools.upkeep.settings_page \
		&& $(PYTHON) -m tools.upkeep.dashboards_page && $(PYTHON) -m tools.upkeep.costs_page \
		&& $(PYTHON) -m policies.reference && $(PYTHON) -m tools.upkeep.contract_schema

release: venv ## Date the changelog, set the version, commit and tag, without a push: make release VERSION=0.1.0
	@$(PYTHON) -m tools.upkeep.release '$(VERSION)'
