# What every script of the examples uses. Sourced, not run. The script that sources it sets NAME, its folder's name.
# shellcheck shell=bash

EXAMPLES_DIR=${PLIMSOLL_EXAMPLES_DIR:-$HOME/.cache/plimsoll-examples}
HOME_DIR=$EXAMPLES_DIR/$NAME
COMMON=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPOSITORY=$(cd "$COMMON/../.." && pwd)

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# make_venv FOLDER: a Python environment, made once.
make_venv() {
  [[ -x $1/bin/pip ]] && return
  "${PYTHON:-python3}" -m venv "$1"
}

# once COMMAND..: runs it unless the very same command has succeeded before.
once() {
  local stamp
  stamp=$HOME_DIR/.done-$(cksum <<<"$*" | cut -d ' ' -f 1)
  [[ -e $stamp ]] && return
  "$@"
  touch "$stamp"
}

# Prints the path of the plimsoll program, which it builds if there is none yet.
plimsoll_program() {
  if [[ -n ${PLIMSOLL:-} ]]; then
    echo "$PLIMSOLL"
  elif ! type -P plimsoll; then
    cargo build --quiet --release --manifest-path "$REPOSITORY/Cargo.toml"
    echo "${CARGO_TARGET_DIR:-$REPOSITORY/target}/release/plimsoll"
  fi
}
