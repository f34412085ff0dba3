# A job array of Slurm: samples/cluster/slurm.sh.
source "$here/slurm_daemons.sh"
answering() { compgen -G 'parts/out.*.jsonl.part' >/dev/null && [ -s "$(ls -S parts/out.*.jsonl.part | head -1)" ]; }

slurm() {
  local host
  host=$(hostname -s)
  make_input 640
  write_slurm_conf "$host(127.0.0.1)"
  echo "NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN" >>slurm.conf
  start_controller
  slurmd -D -N "$host" 2>slurmd.err &
  daemons+=($!)
  until_true 60 nodes_up 1
  say "a job array of four parts on two processors"
  PARTS=4 PLIMSOLL_FLAGS="--max-num-seqs 1 --threads 1" \
    sbatch -p low --array=0-3 -n1 "$root/samples/cluster/slurm.sh" "$model" "$scratch/in" "$scratch/parts"
  until_true 60 answering
  say "a job of the partition above takes both processors"
  sbatch -p high -n2 --output=/dev/null --wrap 'sleep 3'
  until_true 600 none_queued
  sed -n "/[Pp]reempt\|[Rr]equeue/p" slurmctld.log | tail -8
  grep -qi 'preempt' slurmctld.log || { cat slurmctld.log; ls -la . parts; cat slurm-*; stop "nothing was pre-empted"; }
  "$PLIMSOLL" run --merge parts/out.*.jsonl -o all
  compare all
}
