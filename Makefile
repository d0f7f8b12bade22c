# `make demo` and `make test` do all their set-up; they need python3 with its venv module, and nothing else.

PYTHON ?= python3
BIN := .venv/bin
PACKAGES := vm sabotage validator

# Pytest compiles its plugins itself, Hypothesis among them. Where no bytecode is kept, each process does so again: one second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo studio quick test tests nightly lint fast seconds format docs fixtures bench clean

help:
	@echo "make demo      install into .venv, check the example programs, show one finding, run a refund"
	@echo "make studio    a live page in your browser: example programs, runs that go on, a tour (PORT=8716)"
	@echo "make quick     what your change needs, in under 30 s: lint, types, the tests of its rooms (ROOM=engine names one)"
	@echo "make fast      the tests that take under two seconds each"
	@echo "make test      lint, types and all tests"
	@echo "make nightly   all tests, with many cases of each random search"
	@echo "make format    format the code"
	@echo "make docs      write the generated pages again: rules, attacks, Python, schemas"
	@echo "make fixtures  write the expected outputs of tests again (read the diff)"
	@echo "make seconds   record what each test takes, for make quick (FILES=tests/vm/language/test_record.py records one)"
	@echo "make bench     measure; see benchmarks/README.md"

# The newest pip resolves in half the time of the one that comes with Python 3.11. Where this Python has no pip of its
# own, or one that knows no other environment, the one that comes with it does.
VENV := $(PYTHON) -m venv --without-pip .venv && \
	{ $(PYTHON) -m pip --python $(BIN)/python install --quiet --no-compile pip >/dev/null 2>&1 || $(PYTHON) -m venv .venv; }

# What is imported is compiled then. To compile all that is installed took two fifths of an install.
# What setuptools warns of, folders of data and an editable install, is meant.
PIP_INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable

.venv/installed: pyproject.toml
	$(VENV)
	$(PIP_INSTALL) .
	@touch $@

.venv/installed-test: pyproject.toml
	$(VENV)
	$(PIP_INSTALL) '.[test]'
	@touch .venv/installed $@

# An editable install shows type checkers no files, so they look at the same tree through three links.
.typing/stepward:
	@mkdir -p $@
	@for package in $(PACKAGES); do ln -sfn ../../$$package $@/$$package; done
	@ln -sfn ../../validator/testkit $@/testing

.venv/installed-studio: .venv/installed
	$(PIP_INSTALL) '.[studio]'
	@touch $@

PROGRAMS := specs/programs

demo: .venv/installed
	@echo "== the gate on the good programs"
	$(BIN)/stepward check specs/programs/good --policy specs/policies/payments.yaml --policy specs/policies/operations.yaml
	@echo
	@echo "== a program with a hole: the bonus comes after the limit was asked for"
	@$(BIN)/stepward check specs/programs/bad/SW401/gold-bonus.yaml; test $$? -eq 1
	@echo
	@echo "== the refund program, run on a journal in a temporary folder"
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/stepward key "$$folder/key" > "$$folder/told"; \
	$(BIN)/stepward run $(PROGRAMS)/good/customer_refund.yaml --tools $(PROGRAMS)/tools.py \
		--model script:$(PROGRAMS)/replies/customer_refund.yaml --journal "$$folder/runs.db" --run-id demo --key "$$folder/key" \
		--input order_id=ORD-000042 --input amount=120.50 --input request="It came broken" \
		--input customer_email=ann@example.com; \
	echo; echo "== its journal, verified"; \
	$(BIN)/stepward verify "$$folder/runs.db" --key "$$folder/key.pub"
	@echo
	@echo "== the machine of the refund program, attacked by every attack of one family"
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/stepward sabotage $(PROGRAMS)/good/customer_refund.yaml --policy specs/policies/payments.yaml \
		--families crash --seed 1 --examples 40 --require-all --save "$$folder"
	@echo
	@mkdir -p build/demo
	@$(BIN)/stepward report specs/programs/good specs/programs/bad/SW401/gold-bonus.yaml \
		--policy specs/policies/payments.yaml --policy specs/policies/operations.yaml -o build/demo/report.html; test $$? -eq 1
	@echo
	@echo "the gate let the good programs through and stopped the bad one; the machine ran one, and held. next:"
	@echo "  open build/demo/report.html in a browser"
	@echo "  $(BIN)/stepward explain SW401"
	@echo "  $(BIN)/stepward graph specs/programs/good/customer_refund.yaml -o refund.svg"
	@echo "  $(BIN)/stepward check path/to/your/programs"

PORT ?= 8716

studio: .venv/installed-studio
	@set -e; folder=$$(mktemp -d); fleet=; \
	trap 'test -z "$$fleet" || kill $$fleet 2>/dev/null || true; rm -rf "$$folder"' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/python $(PROGRAMS)/fleet.py "$$folder/runs.db" & fleet=$$!; \
	while ! test -e "$$folder/runs.db.ready"; do kill -0 $$fleet; sleep 0.2; done; \
	echo "== the studio follows a fleet of example runs, in a temporary folder; stop it with Ctrl-C"; \
	$(BIN)/stepward studio --journal "$$folder/runs.db" --port $(PORT) --tour --tools $(PROGRAMS)/tools.py \
		--model script:$(PROGRAMS)/replies/customer_refund.yaml --policy specs/policies/payments.yaml $(PROGRAMS)/good

lint: .venv/installed-test .typing/stepward
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	cd .typing && ../$(BIN)/mypy --config-file ../pyproject.toml -p stepward.vm -p stepward.sabotage -p stepward.validator -p stepward.testing

# Collecting compiles the tests and what they import. Done once, beside the types, and again after a change; else each
# worker does it for itself. What is wrong in a collection shows in the run that follows.
.venv/bytecode: .venv/installed-test $(shell find $(PACKAGES) tests benchmarks -name '*.py')
	-@$(BIN)/python -m pytest --collect-only -qq -n 0 >/dev/null 2>&1
	@touch $@

# Two cores have work for four workers: where two tests wait for a process or a clock, two others go on.
tests: .venv/bytecode
	$(BIN)/python -m pytest -q -n 4 --dist worksteal

# One core does the types while the other compiles; the tests need not wait for the types.
test: .venv/installed-test .typing/stepward
	@$(MAKE) --no-print-directory --jobs 2 lint tests

# A test that hangs shows where, and ends its worker; the others go on. The longest take some minutes on an idle machine.
nightly: .venv/installed-test
	STEPWARD_MANY=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal --durations 30 \
		-o faulthandler_timeout=3600 -o faulthandler_exit_on_timeout=true

fast: .venv/installed-test
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

quick: .venv/installed-test .typing/stepward
	@$(BIN)/python tests/quick.py --rooms "$(ROOM)"

seconds: .venv/installed-test
	PYTHONPATH=tests $(BIN)/python -m pytest -q -p measured -m "not slow" $(or $(FILES),tests)

format: .venv/installed-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/installed
	$(BIN)/python -m stepward.validator.rules.pages > specs/rules.md
	$(BIN)/python -m stepward.sabotage.campaigns.threats > specs/threat-model.md
	$(BIN)/python -m stepward.validator.python_page > specs/guide/python.md
	$(BIN)/python -m stepward.vm.lisp.page specs/lisp.md
	$(BIN)/stepward schema program > specs/program.schema.json
	$(BIN)/stepward schema policy > specs/policy.schema.json

fixtures: .venv/installed-test
	STEPWARD_WRITE_FIXTURES=1 $(BIN)/python -m pytest -q tests/validator/rules/test_fixtures.py tests/validator/diagram/test_diagram_golden.py \
		tests/vm/language/test_language_features.py
	$(BIN)/python -m stepward.sabotage.recorded

bench: .venv/installed
	$(PIP_INSTALL) '.[peers,machine-peers,otel,analysis,studio]'
	$(BIN)/python benchmarks/check.py
	$(BIN)/python benchmarks/cache.py
	$(BIN)/python benchmarks/replies.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/bodies.py
	$(BIN)/python benchmarks/machine.py
	$(BIN)/python benchmarks/telemetry.py
	$(BIN)/python benchmarks/studio.py
	$(BIN)/python benchmarks/sabotage.py
	$(BIN)/python benchmarks/chaos.py
	$(BIN)/python benchmarks/drift.py

clean:
	rm -rf .venv .typing build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .stepward_cache .hypothesis
