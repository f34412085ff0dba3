# Slurm with daemons of its own, and its clients, which $client starts (empty: as they are).
client=()
munge_up() { [ -S "$scratch/munge.socket" ]; }
idle_nodes() { "${client[@]}" sinfo -h -N -p low -o %T 2>/dev/null | grep -cx idle; }
nodes_up() { [ "$(idle_nodes)" = "$1" ]; }
none_queued() { [ -z "$("${client[@]}" squeue -h)" ]; }

write_slurm_conf() { # ADDRESS
  dd if=/dev/urandom of=munge.key bs=1024 count=1 status=none
  chmod 400 munge.key
  mkdir state
  cat >slurm.conf <<END
ClusterName=plimsoll
SlurmctldHost=$1
SlurmUser=root
SlurmctldPort=46817
SlurmdPort=46818
AuthType=auth/munge
AuthInfo=cred_expire=5,socket=$scratch/munge.socket
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool.%n
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.%n.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=${SLURMD_TIMEOUT:-300}
SchedulerParameters=sched_interval=1,bf_interval=1,nohold_on_prolog_fail
PartitionName=low Nodes=ALL Default=YES PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF
END
  export SLURM_CONF=$scratch/slurm.conf
}

# On the machine of $client.
start_controller() {
  munged --foreground --force --key-file="$scratch/munge.key" --socket="$scratch/munge.socket" --pid-file="$scratch/munge.pid" \
    --log-file="$scratch/munge.log" --seed-file="$scratch/munge.seed" 2>munge.err &
  daemons+=($!)
  until_true 20 munge_up
  "${client[@]}" slurmctld -D 2>slurmctld.err &
  daemons+=($!)
}
