# Ranks under MPICH's launcher, which has a plug-in of its own (mpi/).
ours() { pgrep -f "^$PLIMSOLL run $model -q -i in" || true; }
working() { [ "$(ours | wc -l)" = 2 ] && [ -s out.part ]; }
none_left() { [ -z "$(ours)" ]; }

launch() { # PROCESSES FLAG...
  local count=$1
  shift
  mpiexec.mpich -n "$count" "$PLIMSOLL" run "$model" -q -i in -o out --threads 1 --max-num-seqs 16 "$@"
}

mpich() {
  local signal process run status began
  make_input 40
  for ranks in "2 -tp 2" "2 -pp 2" "4 -tp 2 -pp 2" "2 -tp 2 -dp 2"; do
    say "mpiexec.mpich -n $ranks"
    # shellcheck disable=SC2086
    launch $ranks
    compare out
    rm -f out out.*
  done
  for signal in STOP KILL; do
    for process in 1 2; do
      launch 2 -tp 2 2>err &
      run=$!
      until_true 60 working
      began=$SECONDS status=0
      kill "-$signal" "$(ours | sed -n "${process}p")"
      wait "$run" || status=$?
      until_true 10 none_left
      say "$signal of process $process: status $status after $((SECONDS - began)) s"
      grep '^plimsoll: process' err || true
      [ "$signal" = KILL ] || [ $status = 10 ] || stop "not the status of a lost process"
      [ $((SECONDS - began)) -le 10 ] || stop "that took too long"
      launch 2 -pp 2
      compare out
      rm -f out out.*
    done
  done
}
