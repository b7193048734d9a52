# What the scripts in this folder share. Sourced, not run.
# shellcheck shell=bash

NAME=peers
# shellcheck source=../common/basics.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common/basics.sh"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOKENIZER=${TOKENIZER:-$HOME_DIR/tokenizer}
MODEL=${MODEL:-tiny}

# The workload of all of them: about 103 tokens in (100 and the chat template's), 64 out, not one fewer.
INPUT_TOKENS=100
OUTPUT_TOKENS=64

# install_peer PACKAGE VERSION: into an environment of its own.
install_peer() {
  local venv=$HOME_DIR/$1
  mkdir -p "$HOME_DIR"
  make_venv "$venv"
  once "$venv/bin/pip" install --quiet "$1==$2"
  # Both count prompt tokens with a local tokenizer: the one of the model that the examples' engines serve.
  [[ -e $TOKENIZER/tokenizer.json ]] || "$venv/bin/python" "$COMMON/make_model.py" --tokenizer "$TOKENIZER"
}

# new_folder LABEL: an empty folder for one run's results.
new_folder() {
  mkdir -p "$HOME_DIR/runs"
  mktemp -d "$HOME_DIR/runs/$1-XXXXXX"
}

# measured TOOL RESULTS COMMAND..: see measured.py.
measured() {
  local folder
  folder=$(dirname "$2")
  say "$1 is running; its results and log: $folder"
  # HF_HUB_OFFLINE keeps AIPerf from taking a folder as a tokenizer.
  env -u HF_HUB_OFFLINE -u TRANSFORMERS_OFFLINE "${PYTHON:-python3}" "$HERE/measured.py" "$1" "$2" "$folder/client.log" "${@:3}"
}

# aiperf URL FLAGS..
aiperf() {
  install_peer aiperf 0.13.0
  local results
  results=$(new_folder aiperf)/results
  measured aiperf "$results" "$HOME_DIR/aiperf/bin/aiperf" profile \
    --url "$1" --model "$MODEL" --tokenizer "$TOKENIZER" --endpoint-type chat --streaming \
    --synthetic-input-tokens-mean "$INPUT_TOKENS" --output-tokens-mean "$OUTPUT_TOKENS" \
    --extra-inputs ignore_eos:true --extra-inputs "min_tokens:$OUTPUT_TOKENS" \
    --use-server-token-count --ui simple --random-seed 7 --artifact-dir "$results" "${@:2}"
}

# guidellm URL FLAGS..
guidellm() {
  install_peer guidellm 0.8.1
  local results
  results=$(new_folder guidellm)/results.json
  measured guidellm "$results" "$HOME_DIR/guidellm/bin/guidellm" run \
    --backend "kind=openai_http,target=$1,model=$MODEL" --tokenizer "kind=huggingface_auto,model=$TOKENIZER" \
    --data "kind=synthetic_text,prompt_tokens=$INPUT_TOKENS,output_tokens=$OUTPUT_TOKENS" \
    --output "kind=json,path=$results" --disable-progress "${@:2}"
}
