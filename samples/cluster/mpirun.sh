#!/usr/bin/env bash
# One model over several machines: samples/cluster/mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]
# A process a stage; HOSTS as mpirun takes them, such as node1,node2 (default: all on this machine). Program, model and MPI are the
# same on all. Stopped and started again, also with other numbers, it goes on.
set -eu
model=${1:?usage: mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]}
input=${2:?usage: mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]}
output=${3:?usage: mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]}
tensor=${4:?usage: mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]}
stages=${5:?usage: mpirun.sh MODEL INPUT OUTPUT TENSOR STAGES [HOSTS]}
place=(--oversubscribe)
[ -z "${6:-}" ] || place=(--host "$6" --map-by node)
exec mpirun -q -n "$stages" --bind-to none "${place[@]}" "${PLIMSOLL:-plimsoll}" run "$model" -i "$input" -o "$output" \
  -tp "$tensor" -pp "$stages" --device cpu --threads "${THREADS:-$tensor}"
