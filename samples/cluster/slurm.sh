#!/usr/bin/env bash
# A job array over one input: sbatch samples/cluster/slurm.sh MODEL INPUT OUTPUT_FOLDER
# Each task takes its part, goes on where it was pre-empted, and asks to be queued again when it was stopped early. Afterwards:
#   plimsoll run --merge OUTPUT_FOLDER/out.*.jsonl -o answers.jsonl
#SBATCH --job-name=plimsoll
#SBATCH --array=0-7
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR2@60
set -u
model=${1:?usage: sbatch slurm.sh MODEL INPUT OUTPUT_FOLDER}
input=${2:?usage: sbatch slurm.sh MODEL INPUT OUTPUT_FOLDER}
folder=${3:?usage: sbatch slurm.sh MODEL INPUT OUTPUT_FOLDER}
mkdir -p "$folder"

"${PLIMSOLL:-plimsoll}" run "$model" -i "$input" -o "$folder/out.{part:03}.jsonl" --part "auto/${PARTS:-8}" \
  --report "$folder/report.{part:03}.json" --progress lines ${PLIMSOLL_FLAGS:-} &
run=$!
# Slurm's early warning and its SIGTERM go to this shell; the run drains within its --grace.
told=0
trap 'told=1; kill -TERM $run' TERM USR2
wait $run
status=$?
while [ $told = 1 ]; do
  told=0
  wait $run
  status=$?
done
trap - TERM USR2

case $status in
  0) ;;
  3) echo "finished; some lines failed, and their records say why" ;;
  7 | 10 | 11) scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}" ;;
  *) exit $status ;;
esac
