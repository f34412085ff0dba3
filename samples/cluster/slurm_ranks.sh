#!/usr/bin/env bash
# One model over several machines, a stage each: sbatch --nodes 4 samples/cluster/slurm_ranks.sh MODEL INPUT OUTPUT
# A machine that is lost ends all; the job is put back into the queue and goes on, as it does when it is pre-empted. The same command with
# another number of nodes goes on too. Open MPI's mpirun starts the ranks here, over Slurm; srun does as well, with
#   srun --mpi=pmix plimsoll run ...  (Open MPI)    or    srun --mpi=pmi2 plimsoll run ...  (MPICH)
#SBATCH --job-name=plimsoll-ranks
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
model=${1:?usage: sbatch --nodes N slurm_ranks.sh MODEL INPUT OUTPUT}
# mpirun itself waits for minutes for a machine that is cut off: so it notices within 5 seconds.
export OMPI_MCA_oob_tcp_keepalive_time=1 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=4
mpirun -q --map-by node --bind-to none "${PLIMSOLL:-plimsoll}" run "$model" -i "$2" -o "$3" -pp "$SLURM_JOB_NUM_NODES" --device cpu \
  --progress lines ${PLIMSOLL_FLAGS:-}
status=$?
case $status in
  0 | 3) exit 0 ;; # 3: some lines failed; their records are there
  # Stopped, lost, locked; and mpirun's own: a process was killed, a machine is gone.
  7 | 10 | 11 | 137 | 143 | 205) scontrol requeue "$SLURM_JOB_ID" ;;
esac
exit $status
