# Two machines, a and b: namespaces of network, host name, /tmp and /dev/shm, with a cable between them.
machine_names=(plimsoll-a plimsoll-b)
network=10.77.13
place_of() { [ "$1" = plimsoll-a ] && echo 1 || echo 2; }

make_machines() {
  local name number
  for name in "${machine_names[@]}"; do
    ip netns add "$name"
    mkdir -p "/etc/netns/$name"
    printf '127.0.0.1 localhost\n%s.1 plimsoll-a\n%s.2 plimsoll-b\n' $network $network >"/etc/netns/$name/hosts"
  done
  ip link add cable netns plimsoll-a type veth peer name cable netns plimsoll-b
  for name in "${machine_names[@]}"; do
    number=$(place_of "$name")
    ip -n "$name" addr add "$network.$number/24" dev cable
    ip -n "$name" link set lo up
    ip -n "$name" link set cable up
  done
  # Open MPI's way to the other machine. As ssh does, it outlives a machine that has lost its power.
  cat >agent <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
machine=\$1
shift
"$here/on_machine" "\$machine" bash -c "\$*" || { status=\$?; [ \$status != 137 ] || exec sleep 60; exit \$status; }
END
  chmod +x agent
  export OMPI_MCA_plm_rsh_agent=$scratch/agent
  export OMPI_MCA_btl_tcp_if_include=$network.0/24 OMPI_MCA_oob_tcp_if_include=$network.0/24
}

tidy_up() {
  local name
  for name in "${machine_names[@]}"; do
    end_machine "$name"
    ip netns del "$name" 2>/dev/null || true
    rm -rf "/etc/netns/$name"
  done
}

on() { "$here/on_machine" "$@"; } # MACHINE COMMAND...
pids_on() { ip netns pids "$1" 2>/dev/null || true; }
end_machine() {
  local pids
  pids=$(pids_on "$1")
  # shellcheck disable=SC2086
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
}
ranks_on() { # MACHINE: processes with ranks
  local pid
  for pid in $(pids_on "$1"); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != plimsoll ] || echo "$pid"
  done
}
# At b's end: a keeps its own address.
cut_cable() { ip -n plimsoll-b link set cable down; }
mend_cable() { ip -n plimsoll-b link set cable up; }
