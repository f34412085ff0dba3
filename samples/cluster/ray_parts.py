#!/usr/bin/env python3
"""One input over a Ray cluster with a shared file system: ray_parts.py MODEL INPUT OUTPUT PARTS [flag ...]

Each task runs a part; when its worker dies, Ray starts the task again elsewhere, and the part goes on where it was. The parts are joined in
the end. Needs `pip install ray`; RAY_ADDRESS names a cluster, else a local one is started.
"""
import ctypes
import os
import signal
import subprocess
import sys
import time

import ray

PLIMSOLL = os.environ.get("PLIMSOLL", "plimsoll")
GPUS = int(os.environ.get("GPUS_PER_TASK", "0"))
DONE, SOME_FAILED, STOPPED, DEVICE_LOST, LOCKED = 0, 3, 7, 10, 11
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class TryAgain(Exception):
    pass


def drain_with_worker():
    """The run drains when its worker is gone, and gives the output free for the next one."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@ray.remote(num_gpus=GPUS, max_retries=20, retry_exceptions=[TryAgain])
def run_part(command, folder):
    status = subprocess.run(command, cwd=folder, preexec_fn=drain_with_worker).returncode
    if status in (DONE, SOME_FAILED):
        return status
    if status in (STOPPED, DEVICE_LOST, LOCKED) or status < 0:
        time.sleep(1)
        raise TryAgain(f"status {status}")
    raise RuntimeError(f"{' '.join(command)}: status {status}, which no second try mends")


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    model, source, output, parts = sys.argv[1:5]
    names = [f"{output}.{part}-of-{parts}" for part in range(int(parts))]
    ray.init()
    tasks = [
        run_part.remote(
            [PLIMSOLL, "run", model, "-q", "-i", source, "-o", name, "--part", f"{part}/{parts}", *sys.argv[5:]],
            os.getcwd(),
        )
        for part, name in enumerate(names)
    ]
    ray.get(tasks)
    sys.exit(subprocess.run([PLIMSOLL, "run", "--merge", *names, "-o", output]).returncode)


if __name__ == "__main__":
    main()
