#!/usr/bin/env bash
# One model over several machines, a stage each: sbatch --nodes 4 samples/cluster/slurm_ranks.sh MODEL INPUT OUTPUT
# A machine that is lost ends all; the job is put back into the queue and goes on.
#SBATCH --job-name=plimsoll-ranks
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
model=${1:?usage: sbatch --nodes N slurm_ranks.sh MODEL INPUT OUTPUT}
mpirun -q --map-by node --bind-to none "${PLIMSOLL:-plimsoll}" run "$model" -i "$2" -o "$3" -pp "$SLURM_JOB_NUM_NODES" --device cpu
status=$?
case $status in
  0 | 3) exit 0 ;;                                          # 3: some lines failed; their records are there
  7 | 10 | 11 | 137 | 143) scontrol requeue "$SLURM_JOB_ID" ;; # stopped, lost, locked, killed
esac
exit $status
