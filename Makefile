# Two commands: `make run` and `make test`. Each sets up what it needs in .venv and nowhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test torch-test check browser terminal clock prometheus lab-ready clean help

help:
	@echo "make run    install, then train the six jobs of examples/quickstart.yaml on this machine"
	@echo "make test   install everything, then run every check and test"
	@echo "make torch-test   train a stock torch script and a stock MaskablePPO; installs 5 GB into .venv-torch"
	@echo "make check  format, lint, types and import rules only"

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "headway needs Python 3.11 or newer; set PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.made
	@echo "installing headway with its example framework (about a minute)"
	$(BIN)/pip install --quiet -e '.[train]'
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.made
	@echo "installing headway with every extra (about two minutes)"
	$(BIN)/pip install --quiet -e '.[train,kube,lab,learn,gpu,page,dev]'
	@touch $@

run: $(VENV)/.run
	$(BIN)/headway run examples/quickstart.yaml
	@echo "a queue that stays: $(BIN)/headway up, then $(BIN)/headway add -- python train.py"

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The report and the live page are looked at in a real browser. Where it cannot be installed, those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing chromium (about a minute)"; \
	    { apt-get install -y -qq --no-install-recommends chromium || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }; } >/dev/null 2>&1 \
	      || echo "chromium could not be installed: the report and the live page are not tested in a browser"; \
	  else echo "no chromium here: the report and the live page are not tested in a browser"; fi

# The screens are looked at in a real terminal of 80 columns and 24 lines. Without it, those tests are skipped and say so.
terminal:
	@command -v tmux >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing tmux"; \
	    { apt-get install -y -qq --no-install-recommends tmux || { apt-get update -qq && apt-get install -y -qq --no-install-recommends tmux; }; } >/dev/null 2>&1 \
	      || echo "tmux could not be installed: the screens are not tested in a terminal"; \
	  else echo "no tmux here: the screens are not tested in a terminal"; fi

# The clock of one process is set back by libfaketime, never the machine's. Without it, that one test is skipped and says so.
clock:
	@ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing libfaketime"; \
	    { apt-get install -y -qq --no-install-recommends faketime || { apt-get update -qq && apt-get install -y -qq --no-install-recommends faketime; }; } >/dev/null 2>&1 \
	      || echo "libfaketime could not be installed: no clock is set back"; \
	  else echo "no libfaketime here: no clock is set back"; fi

# The alert rules and the dashboard are tried on a real Prometheus; its own service is not left running. Without it, those tests are skipped and say so.
prometheus:
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing prometheus (about half a minute)"; \
	    { apt-get install -y -qq --no-install-recommends prometheus || { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; }; } >/dev/null 2>&1 \
	      && { systemctl disable --now prometheus >/dev/null 2>&1 || true; } \
	      || echo "prometheus could not be installed: alert rules and dashboard are not tried"; \
	  else echo "no prometheus here: alert rules and dashboard are not tried"; fi

# Programs and packages for the tests on a real Kubernetes; built once into the user's cache, shown while it builds.
# Where they cannot be had, those tests say why they are skipped (and fail where CI is set). What takes minutes more is
# tested where it is built already: Kubernetes 1.37, the job operators, metrics-server (`headway lab build`).
LAB_PROGRAMS := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kube-proxy filter-check \
	coredns kwok helm
lab-ready: $(VENV)/.test
	-@$(BIN)/headway lab deps
	-@$(BIN)/headway lab build $(LAB_PROGRAMS)

test: check browser terminal clock prometheus lab-ready
	$(BIN)/pytest -n 3 --dist loadscope --no-loadscope-reorder --durations=30 -rR

# A stock torch script on two processes and on two real kubelets, and a stock MaskablePPO that learns to schedule. Torch is
# 5 GB, so it has an environment of its own.
TORCH := .venv-torch
$(TORCH)/.made: pyproject.toml
	@echo "installing torch (about two minutes, 5 GB)"
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/pip install --quiet torch -e '.[kube,lab,ppo,dev]'
	@touch $@

torch-test: $(TORCH)/.made
	$(TORCH)/bin/pytest -m torch tests/local/test_torch.py tests/local/test_ideas.py \
		tests/kube/test_torch_lab.py tests/learn/test_ppo.py

clean:
	rm -rf $(VENV) $(TORCH)
