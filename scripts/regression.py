"""The runs of scripts/regression, for scripts/regress and scripts/mutants."""

import os
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "scripts" / "regression"
EPIC = ROOT / "build" / "epic"
LIMIT_S = 300  # of one run

# Exit statuses of epic.
RIGHT, DIFFERENCE, BAD_INPUT = 0, 1, 2
OPTIONAL = ("MODE2", "MODE3", "FLOAT")  # parameters of inc_engine that leave hardware out
LACKS = "the engine's build lacks it"   # what epic says to a run that wants what was left out
WIDE = 4096                             # DATA_W at which a beat is longer than the least MTU
TOO_WIDE = "in this build: its data path has"  # what epic says then


class Broken(Exception):
    """A run, or what it needs, could not be had: it says nothing about the RTL."""


def lines():
    """Arguments of `epic` of every run, in order."""
    found = [line.split() for line in FILE.read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    if not found:
        raise Broken(f"{FILE.name}: no runs")
    return found


def say(line):
    """A run as a person would name it: without the folders of its files, a set of files as one."""
    words = [os.path.basename(word) if "/" in word else word for word in line]
    files = [word for word in words if word.endswith(".pcap")]
    if len(files) > 1:
        words = [w for w in words if w not in files[1:]]
        words.insert(words.index(files[0]) + 1, "...")
    return " ".join(words)


def run(line, sim, width, log, extra=(), **environment):
    """Does one run on the simulator `sim`; its output goes to the end of `log`. Returns (status, last line)."""
    command = [str(EPIC), *line, "--data-w", str(width), "--sim", str(sim), *extra]
    with open(log, "a+") as file:
        print("$", *command, file=file, flush=True)
        start = file.tell()
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **environment})
        try:
            status = process.wait(LIMIT_S)
        except BaseException as err:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(10)
            if isinstance(err, subprocess.TimeoutExpired):
                raise Broken(f"{say(line)}: over {LIMIT_S} s, see {log.relative_to(ROOT)}") from err
            raise
        file.seek(start)
        told = [text for text in file.read().splitlines() if text.strip()]
    return status, told[-1] if told else ""


def build(width, *options, log=None):
    """Runs scripts/build-sim; its output goes to `log` (None: to the terminal)."""
    command = [str(ROOT / "scripts" / "build-sim"), *options, str(width)]
    if log is None:
        if subprocess.run(command, cwd=ROOT).returncode != 0:
            raise Broken(f"build-sim {width} failed")
        return
    got = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    log.write_text(got.stdout)
    if got.returncode != 0:
        first = next((t for t in got.stdout.splitlines() if "rror" in t), "no output")
        raise Broken(f"does not build: {first.strip()[:100]}, see {log.relative_to(ROOT)}")
