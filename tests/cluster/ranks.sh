# Ranks on two machines as a Slurm job: samples/cluster/slurm_ranks.sh.
source "$here/two_machines.sh"
source "$here/slurm_daemons.sh"

both_work() { [ -n "$(ranks_on plimsoll-a)" ] && [ -n "$(ranks_on plimsoll-b)" ] && [ -s out.part ]; }
no_ranks() { [ -z "$(ranks_on plimsoll-a)$(ranks_on plimsoll-b)" ]; }
start_node() { # MACHINE
  mkdir -p "spool.$1"
  on "$1" slurmd -D -N "$1" 2>>"slurmd.$1.err" &
  daemons+=($!)
}

# submit NODES
submit() {
  PLIMSOLL_FLAGS="--threads 1 --max-num-seqs 16" "${client[@]}" sbatch --parsable -p low --nodes "$1" \
    "$root/samples/cluster/slurm_ranks.sh" "$model" "$scratch/in" "$scratch/out"
}
finish() {
  until_true 240 none_queued # Slurm takes two minutes to forget a machine
  [ -e out ] || { cat slurm-*; tail -20 slurmctld.log; stop "the job has not finished"; }
  compare out
  rm -f out out.* slurm-*
}
requeued() { "${client[@]}" scontrol show job "$1" | grep -q 'Restarts=[1-9]'; }

ranks() {
  local job machine
  make_machines
  make_input 300
  client=("$here/on_machine" plimsoll-a)
  export SLURMD_TIMEOUT=20
  write_slurm_conf "plimsoll-a($network.1)"
  for machine in "${machine_names[@]}"; do
    echo "NodeName=$machine NodeAddr=$network.$(place_of "$machine") CPUs=2 State=UNKNOWN" >>slurm.conf
  done
  start_controller
  for machine in "${machine_names[@]}"; do start_node "$machine"; done
  until_true 60 nodes_up 2

  say "a stage a machine, by mpirun"
  submit 2
  finish

  say "the same by srun"
  "${client[@]}" srun --mpi=pmix -N 2 -n 2 "$PLIMSOLL" run "$model" -q -i in -o out -pp 2 --threads 1
  compare out
  rm -f out out.*

  say "cancelled, and gone on with on one machine"
  job=$(submit 2)
  until_true 60 both_work
  "${client[@]}" scancel "$job"
  until_true 60 none_queued
  until_true 10 no_ranks
  [ -s out.part ] || stop "there is no journal"
  submit 1
  finish

  say "pre-empted by a job of the partition above"
  job=$(submit 2)
  until_true 60 both_work
  "${client[@]}" sbatch -p high --nodes 2 --exclusive --output=/dev/null --wrap 'sleep 3'
  until_true 60 requeued "$job"
  finish

  say "a rank is killed"
  job=$(submit 2)
  until_true 60 both_work
  # shellcheck disable=SC2046
  kill -KILL $(ranks_on plimsoll-b)
  until_true 60 requeued "$job"
  finish

  say "a machine loses its power, and comes back"
  job=$(submit 2)
  until_true 60 both_work
  cut_cable
  end_machine plimsoll-b
  until_true 10 no_ranks
  until_true 60 requeued "$job"
  mend_cable
  start_node plimsoll-b
  finish
}
