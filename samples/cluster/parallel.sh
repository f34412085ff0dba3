#!/usr/bin/env bash
# GNU parallel on one machine, a process a card: samples/cluster/parallel.sh MODEL INPUT OUTPUT PARTS [JOBS]
# Stopped and started again, it goes on; parts that are finished end at once.
set -u
model=${1:?usage: parallel.sh MODEL INPUT OUTPUT PARTS [JOBS]}
input=${2:?usage: parallel.sh MODEL INPUT OUTPUT PARTS [JOBS]}
output=${3:?usage: parallel.sh MODEL INPUT OUTPUT PARTS [JOBS]}
parts=${4:?usage: parallel.sh MODEL INPUT OUTPUT PARTS [JOBS]}
export model input output parts
export plimsoll=${PLIMSOLL:-plimsoll}

one_part() { # PART SLOT: a run whose lines have their records is done, whether some failed (3) or none
  CUDA_VISIBLE_DEVICES=$(($2 - 1)) "$plimsoll" run "$model" -i "$input" -o "$output.{part}-of-{parts}" --part "$1/$parts" -q
  local status=$?
  [ $status = 3 ] && status=0
  return $status
}
export -f one_part
seq 0 $((parts - 1)) | parallel --will-cite --retries 3 -j "${5:-$parts}" one_part {} {%} || exit
names=()
for ((part = 0; part < parts; ++part)); do names+=("$output.$part-of-$parts"); done
exec "$plimsoll" run --merge "${names[@]}" -o "$output"
