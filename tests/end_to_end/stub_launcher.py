"""A launcher that does and writes what torchrun does, without torch: a rank is up within 0.1 s.

    stub_launcher.py FOLDER --nproc 2 --max-restarts 1 [--total 1000] [--inherit] [--stay] [--inside]

Each attempt starts `--nproc` ranks, each with `FOLDER/attempt_N/RANK/stdout.log`; `--inherit`: with
the launcher's output, `--nowhere`: with /dev/null. When one ends badly the others are ended, and the next
attempt begins; `--stay` leaves them alone, as srun does without --kill-on-bad-exit. A rank does what
`FOLDER/ctl/rankN` says: `exit`, `raise`, `nan`, `hang`, `eval`, `save`; it writes nothing while
its first word is `load`. `print` writes the lines below it and trains on; `do` runs the Python below it;
`worker` starts a child, writes its pid to `FOLDER/worker.pid`, and fails when the child ends; `finish` ends
well, `linger` never. `--tag`: each line begins with the time and the rank. `--first 2 --world 4`: the ranks
are 2 and 3 of 4. `--inside`: the launcher is rank 0, as in Lightning: its environment has no rank.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

RANK = """
import os, subprocess, sys, time
control, total = sys.argv[1], int(sys.argv[2])
while os.path.exists(control) and open(control).read().strip() == "load":
    time.sleep(0.05)
print("[W socket.cpp:462] [c10d] The hostname of the client socket cannot be retrieved. err=-3", flush=True)
metrics = open(sys.argv[3], "a", buffering=1) if len(sys.argv) > 3 else None
def line(text):
    tag = time.strftime("%Y-%m-%d %H:%M:%S") + ",000 rank " + os.environ["RANK"] + ": "
    print((tag if os.environ.get("STUB_TAG") else "") + text, flush=True)
step = 0
while step < total:
    word = open(control).read().strip() if os.path.exists(control) else ""
    if word == "exit":
        sys.exit(3)
    if word == "raise":
        raise ValueError("sample 4711 has no label")
    if word.startswith("print\\n"):
        os.remove(control)
        for each in word.split("\\n")[1:]:
            line(each)
    if word.startswith("do\\n"):
        os.remove(control)
        exec(word[3:])
    if word == "hang":
        time.sleep(3600)
    if word == "worker":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        with open(os.path.dirname(control) + "/../worker.pid", "w") as out:
            out.write("%d\\n" % child.pid)
        child.wait()
        raise RuntimeError("DataLoader worker (pid(s) %d) exited unexpectedly" % child.pid)
    if word in ("finish", "linger"):
        line("training finished after %d steps" % step)
        time.sleep(0 if word == "finish" else 3600)
        sys.exit(0)
    if word in ("eval", "save"):
        words = {"eval": "Running evaluation", "save": "Saving model checkpoint to /ckpt/step"}
        print(words[word], flush=True)
        os.remove(control)
        time.sleep(3600)
    step += 1
    loss = "nan" if word == "nan" else "%.4f" % (1 / step + 1)
    line(f"step {step}/{total} loss {loss}")
    if metrics is not None:
        metrics.write('{"step": %d, "loss": %s}\\n' % (step, loss))
    time.sleep(0.2)
"""
ELASTIC = "{} {} torch/distributed/elastic/"
FAILED = f"E{ELASTIC}multiprocessing/api.py:869] failed (exitcode: {{}}) local_rank: {{}} (pid: {{}}) "
RESTART = f"I{ELASTIC}agent/server/api.py:916] [default] Worker group FAILED. {{}}/{{}} attempts left; "


def head() -> str:
    """Date and time as glog writes them."""
    return time.strftime("%m%d %H:%M:%S", time.localtime()) + f".{int(time.time() % 1 * 1e6):06}"


def start(args: argparse.Namespace, attempt: int) -> list[subprocess.Popen[bytes]]:
    """The ranks of one attempt."""
    found = []
    for local in range(1 if args.inside else 0, args.nproc):
        rank = args.first + local
        log = Path(args.folder) / f"attempt_{attempt}" / str(rank) / "stdout.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        env = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(args.world or args.nproc),
            "STUB_TAG": "1" if args.tag else "",
            "TORCHELASTIC_RUN_ID": args.run_id,
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
        }
        if args.inside:
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29933"}
        argv = [sys.executable, "-c", RANK, f"{args.folder}/ctl/rank{rank}", str(args.total)]
        argv += [f"{args.folder}/{args.metrics}"] if args.metrics and rank == 0 else []
        if args.inherit:
            found.append(subprocess.Popen(argv, env=env))
        elif args.nowhere:
            nowhere = subprocess.DEVNULL
            found.append(subprocess.Popen(argv, env=env, stdout=nowhere, stderr=nowhere))
        else:
            with log.open("ab") as out:
                found.append(subprocess.Popen(argv, env=env, stdout=out, stderr=out))
    return found


def failed(ranks: list[subprocess.Popen[bytes]], *, stay: bool) -> tuple[int, int, int] | None:
    """Wait for all, or for the first that fails: (rank, exit code, pid); None: all ended well."""
    while True:
        codes = [rank.poll() for rank in ranks]
        for number, code in enumerate(codes):
            if code and not stay:
                return number, code, ranks[number].pid
        if None not in codes:
            return None
        time.sleep(0.1)


def main() -> int:
    """Run all attempts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--run-id", default="none")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--world", type=int)
    parser.add_argument("--max-restarts", type=int, default=0)
    parser.add_argument("--total", type=int, default=100_000)
    parser.add_argument("--inherit", action="store_true")
    parser.add_argument("--metrics", help="a file into which rank 0 writes its steps as JSON lines")
    parser.add_argument("--nowhere", action="store_true")
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--tag", action="store_true")
    parser.add_argument("--inside", action="store_true")
    args = parser.parse_args()
    for attempt in range(args.max_restarts + 1):
        ranks = start(args, attempt)
        if args.inside:
            os.environ.update(RANK="0", LOCAL_RANK="0", STUB_TAG="1" if args.tag else "")
            sys.argv = ["", f"{args.folder}/ctl/rank0", str(args.total)]
            exec(RANK, {"__name__": "__main__"})  # noqa: S102 - the text above
        end = failed(ranks, stay=args.stay)
        if end is None:
            return 0
        for rank in ranks:
            rank.send_signal(signal.SIGTERM)
            rank.wait()
        left = args.max_restarts - attempt
        print(
            FAILED.format(head(), os.getpid(), end[1], end[0], end[2]) + f"of binary: {sys.executable}",
            flush=True,
        )
        if left:
            words = "will restart worker group"
            print(RESTART.format(head(), os.getpid(), left, args.max_restarts) + words, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
