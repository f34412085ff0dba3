#!/usr/bin/env bash
# One model over several machines: samples/cluster/mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]
# A process a stage, or PROCESSES; HOSTS as mpirun takes them, such as node1,node2 or node1:2,node2:2 (default: all on this machine).
# Program, model and MPI are the same on all. Stopped and started again, also with other numbers, it goes on: after status 7 or 10, and after
# mpirun's own 137 and 143 (a process was killed) and 205 (a machine was lost).
set -eu
usage="usage: mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]"
model=${1:?$usage} input=${2:?$usage} output=${3:?$usage} tensor=${4:?$usage} stages=${5:?$usage}
place=(--oversubscribe)
[ -z "${6:-}" ] || place=(--host "$6" --map-by node)
# mpirun itself waits for minutes for a machine that is cut off: so it notices within 5 seconds.
export OMPI_MCA_oob_tcp_keepalive_time=1 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=4
exec mpirun -q -n "${PROCESSES:-$stages}" --bind-to none "${place[@]}" "${PLIMSOLL:-plimsoll}" run "$model" -i "$input" -o "$output" \
  -tp "$tensor" -pp "$stages" --device cpu --threads "${THREADS:-$tensor}"
