# Parts as tasks of Ray: samples/cluster/ray_parts.py.
worker() { pgrep -f '^ray::run_part' | head -1 | grep .; }
begun() { [ -n "$(worker)" ] && compgen -G 'all.*-of-*.part' >/dev/null && [ -s "$(ls -S all.*-of-*.part | head -1)" ]; }

ray() {
  make_input 640
  say "four parts over two workers"
  "${PYTHON:-python3}" "$root/samples/cluster/ray_parts.py" "$model" in all 4 --max-num-seqs 1 --threads 1 >ray.log 2>&1 &
  local driver=$!
  daemons+=("$driver")
  until_true 120 begun
  local killed
  killed=$(worker)
  say "kill worker $killed"
  kill -KILL "$killed"
  wait "$driver" || { cat ray.log; stop "the driver failed"; }
  grep -i 'retr\|died\|crash' ray.log | head -4 || true
  compare all
}
