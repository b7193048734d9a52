# What the examples' run.sh scripts share. Sourced, not run.
#
# The script that sources it sets
#   NAME, PORT, READY_WITHIN   the engine's name, its port, and the seconds it may take to start
#   KNOBS                      its flags when none are given
#   SEARCH                     plimsoll's flags when none are given
# and defines
#   install_engine             makes the environment in $HOME_DIR, doing only what is not yet done
#   exec_engine FLAGS..        becomes the engine
# shellcheck shell=bash

# shellcheck source=basics.sh
source "$(dirname "${BASH_SOURCE[0]}")/basics.sh"

LOG=$HOME_DIR/engine.log
PID_FILE=$HOME_DIR/engine.pid
URL=http://127.0.0.1:$PORT

usage() {
  cat <<TEXT
usage: run.sh COMMAND

  all [FLAGS] [-- PLIMSOLL]   install, start, search (or run the plimsoll command given), stop
  install                     install the engine and make the model; does nothing that is already done
  start [FLAGS]               start the engine, wait until it answers, leave it running
  search [PLIMSOLL FLAGS]     plimsoll search against it
  plimsoll COMMAND [FLAGS]    any other plimsoll command against it
  stop                        stop the engine
  serve [FLAGS]               install, then become the engine: for a recipe whose engine plimsoll launches (tune.toml)

FLAGS go to the engine (default: ${KNOBS[*]}). PLIMSOLL FLAGS replace the default ones:
  ${SEARCH[*]@Q}

examples:
  run.sh all
  run.sh all ${KNOBS[0]} 4 -- measure --concurrency 4 --requests 60

environment:
  PLIMSOLL_EXAMPLES_DIR   where things are installed (now: $EXAMPLES_DIR)
  PORT                    the engine's port on 127.0.0.1 (now: $PORT)
  PLIMSOLL                the plimsoll program; else the one on PATH, else cargo builds it
  PYTHON                  the Python to make environments with (default: python3)
TEXT
}

install() {
  mkdir -p "$HOME_DIR"
  install_engine
}

# The process group of our running engine; fails if there is none.
engine_group() {
  local pid=${STARTED:-}
  if [[ -z $pid ]]; then
    [[ -s $PID_FILE ]] || return 1
    pid=$(<"$PID_FILE")
    # A number alone proves nothing: after a restart of the machine it may be another program's.
    [[ $(ps -o args= -p "$pid") == *"$HOME_DIR"* ]] || return 1
  fi
  group_is_alive "$pid" && echo "$pid"
}

group_is_alive() { ps -eo pgid=,stat= | awk -v group="$1" '$1 == group && $2 !~ /^Z/ { alive = 1 } END { exit !alive }'; }

port_is_taken() { (: <>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }

start() {
  engine_group >/dev/null && die "$NAME is already running; \`run.sh stop\` stops it"
  port_is_taken && die "port $PORT is in use; set PORT to a free one"
  (($#)) || set -- "${KNOBS[@]}"
  install

  say "starting $NAME $*"
  trap stop EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  set -m # gives the engine its own process group, so that Ctrl-C reaches plimsoll and not the engine
  (
    trap '' HUP
    exec_engine "$@"
  ) </dev/null >"$LOG" 2>&1 &
  set +m
  STARTED=$!
  echo "$STARTED" >"$PID_FILE"

  local began=$SECONDS
  until curl --silent --fail --max-time 5 --output /dev/null "$URL/health"; do
    group_is_alive "$STARTED" || engine_failed "$NAME ended before it was ready"
    ((SECONDS - began < READY_WITHIN)) || engine_failed "$NAME was not ready after $READY_WITHIN s"
    sleep 0.2
  done
  say "$NAME answers at $URL after $((SECONDS - began)) s; its log: $LOG"
}

engine_failed() {
  tail -n 20 "$LOG" >&2
  die "$1; above are the last lines of $LOG"
}

stop() {
  local group
  if group=$(engine_group); then
    kill -TERM -- "-$group"
    for _ in {1..50}; do
      group_is_alive "$group" || break
      sleep 0.2
    done
    kill -KILL -- "-$group" 2>/dev/null || true
    say "$NAME stopped"
  fi
  rm -f "$PID_FILE"
}

# plimsoll COMMAND FLAGS..: on our engine.
plimsoll() {
  (($#)) || die "which plimsoll command? for example: run.sh plimsoll measure --concurrency 4"
  local program
  program=$(plimsoll_program)
  "$program" "$1" --url "$URL" "${@:2}"
}

search() {
  (($#)) || set -- "${SEARCH[@]}"
  plimsoll search "$@"
}

all() {
  local flags=()
  while (($#)) && [[ $1 != -- ]]; do
    flags+=("$1")
    shift
  done
  plimsoll_program >/dev/null # a build must not share the machine with a measurement
  start "${flags[@]}"
  if (($# > 1)); then
    plimsoll "${@:2}"
  else
    search
  fi
}

main() {
  local command=${1:-help}
  shift || true
  case $command in
    install) install ;;
    stop)
      engine_group >/dev/null || say "$NAME is not running"
      stop
      ;;
    search | plimsoll | all) "$command" "$@" ;;
    serve)
      install >&2
      exec_engine "$@"
      ;;
    start)
      start "$@"
      trap - EXIT
      ;;
    help | -h | --help) usage ;;
    *)
      usage >&2
      die "no command \`$command\`"
      ;;
  esac
}
