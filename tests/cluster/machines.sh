# Ranks on two machines: samples/cluster/mpirun.sh.
source "$here/two_machines.sh"

# launch TENSOR STAGES PROCESSES
launch() {
  PROCESSES=$3 THREADS=1 on plimsoll-a "$root/samples/cluster/mpirun.sh" "$model" "$scratch/in" "$scratch/out" "$1" "$2" \
    "plimsoll-a:$(($3 / 2)),plimsoll-b:$(($3 / 2))"
}

both_work() { [ -n "$(ranks_on plimsoll-a)" ] && [ -n "$(ranks_on plimsoll-b)" ] && [ -s out.part ]; }
all_gone() { [ -z "$(pids_on plimsoll-a)" ] && [ -z "$(pids_on plimsoll-b)" ]; }
# In seconds and tenths, since $began.
passed() { echo $((($(date +%s%N) - began) / 100000000)) | sed 's/.$/.&/; s/^\./0./'; }

harm() { # KIND MACHINE
  case $1 in
    # shellcheck disable=SC2046
    STOP | KILL) kill "-$1" $(ranks_on "$2") ;;
    cut) cut_cable ;;
    power) cut_cable && end_machine plimsoll-b ;;
  esac
}

# disturbed KIND MACHINE TENSOR STAGES PROCESSES: what happens, when, and whether it goes on.
disturbed() {
  local kind=$1 machine=$2 name status=0 began end gone=""
  shift 2
  rm -f out out.*
  launch "$@" 2>err &
  local run=$!
  until_true 60 both_work
  sleep 1
  began=$(date +%s%N)
  harm "$kind" "$machine"
  end=$((SECONDS + 40))
  until [ "$gone" = "plimsoll-a plimsoll-b" ] || [ $SECONDS -ge $end ]; do
    gone=""
    for name in "${machine_names[@]}"; do
      if [ -n "$(ranks_on "$name")" ]; then
        unset "left[$name]"
      else
        left[$name]=${left[$name]:-$(passed)}
        gone="$gone${gone:+ }$name"
      fi
    done
    sleep 0.05
  done
  until all_gone || [ $SECONDS -ge $end ]; do sleep 0.05; done
  printf '%s on %s, -tp %s -pp %s, %s processes: ranks on a left after %s s, on b after %s s, all after %s s; ' "$kind" "$machine" "$@" \
    "${left[plimsoll-a]:-never}" "${left[plimsoll-b]:-never}" "$(passed)"
  all_gone || { ps -fp "$(pids_on plimsoll-a | paste -sd,)$(pids_on plimsoll-b | sed 's/^/,/')" >&2 || true; stop "processes were left"; }
  wait "$run" || status=$?
  echo "status $status"
  grep '^plimsoll: process' err || true
  [ "$status" != 0 ] || stop "it ended before it was disturbed"
  [ -s out.part ] || stop "there is no journal"
  mend_cable
  left=()
}

machines() {
  local ranks harm kinds=("2 1 2" "1 2 2" "2 2 4") i=0
  declare -gA left=()
  make_machines
  make_input 600
  for ranks in "${kinds[@]}"; do
    say "tensor ranks, stages, processes: $ranks"
    # shellcheck disable=SC2086
    launch $ranks 2>err || { cat err; stop "a launch over two machines failed"; }
    compare out
    rm -f out out.*
  done
  for harm in "STOP plimsoll-a" "STOP plimsoll-b" "KILL plimsoll-a" "KILL plimsoll-b" "cut the-cable" "power plimsoll-b"; do
    # shellcheck disable=SC2086
    disturbed $harm ${kinds[i++ % 3]}
    # It goes on: over the machines again, or in one process.
    if ((i % 2)); then launch 1 2 2 2>err; else "$PLIMSOLL" run "$model" -q -i in -o out; fi
    compare out
  done
}
