"""Synthesis of the RTL for ECP5: runs Yosys (with its slang front end) and reads its netlist.

Every build has a folder of its own under build/synth, named by the content of all that goes into it
(sources, parameters, commands, tool versions): a build that is there is not made again.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import rtlfiles

ROOT = rtlfiles.ROOT
BUILD = ROOT / "build" / "synth"
VENV = ROOT / ".tools" / "venv"
WRAPPER = ROOT / "fpga" / "synth" / "inc_synth_top.sv"
ENGINE = "inc_engine"
# The build that the figures are held to; parameters that the engine does not have are left out.
HELD_BUILD = {"ENDPOINTS": 64, "PIPES": 16, "POOL_KB": 128, "MODE2": 1, "MODE3": 1, "FLOAT": 0,
              "CUT_THROUGH": 1}
MEMORY_LIMIT = 1024  # bits; a larger memory must be in RAM

# A warning of slang in the generated register block: a one-bit field is << 1.
GENERATED = r"^rtl/csr/inc_csr\.sv:.*\[-Wshift-count-overflow\]"
# Warnings that say nothing about the RTL.
HARMLESS = re.compile(
    GENERATED + r"|^ABC: Warning:|^Lexer warning: .*/pyosys/share/"  # said of every design
)

# Runs the passes given as arguments; a pass that fails ends the interpreter. A front end may fail silently.
WORKER = """import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in sys.argv[1:]:
    ys.run_pass(command, design)
assert design.top_module(), "no top module: the front end failed silently"
"""


class SynthesisError(Exception):
    """A tool failed, or left no netlist; the text says where its log is."""


@dataclass
class Run:
    """What one tool took: wall seconds, and the peak of its (or a child's) resident memory."""

    seconds: float
    peak_mib: float


@dataclass
class Build:
    """One synthesis: `top` of `sources`, with these parameters."""

    top: str
    sources: list
    parameters: dict
    flatten: bool = True
    digest: str = field(init=False)

    def __post_init__(self):
        text = hashlib.sha256()
        for path in self.sources:
            text.update(where(path).encode() + b"\0" + Path(path).read_bytes())
        text.update(repr(self.commands("D")).encode() + WORKER.encode())
        text.update(pinned("pyosys").encode())
        self.digest = text.hexdigest()[:16]

    @property
    def name(self):
        return f"{self.top}-w{self.parameters.get('DATA_W', 0)}-{self.digest}"

    @property
    def folder(self):
        return BUILD / self.name

    def commands(self, folder):
        """The Yosys passes, in order; files go to `folder`."""
        files = " ".join(str(Path(p).relative_to(ROOT)) if Path(p).is_relative_to(ROOT) else str(p)
                         for p in self.sources)
        chosen = " ".join(f"-G {k}={v}" for k, v in sorted(self.parameters.items()))
        synth = f"synth_ecp5 -top {self.top}" + ("" if self.flatten else " -noflatten")
        return [f"read_slang --threads 1 --keep-hierarchy --top {self.top} {chosen} {files}",
                f"hierarchy -check -top {self.top}",
                f"tee -q -o {folder}/modules.txt ls",
                f"{synth} -run begin:map_ffram",
                # What has found no RAM yet becomes flip-flops in the next step.
                f"tee -q -o {folder}/memories.rtlil dump t:$mem_v2",
                f"{synth} -run map_ffram:edif",
                f"tee -q -o {folder}/stat.json stat -json",
                f"write_json {folder}/netlist.json"]


def pinned(tool):
    """Version of a tool in scripts/versions."""
    for line in (ROOT / "scripts" / "versions").read_text().splitlines():
        words = line.split()
        if len(words) == 4 and words[2] == tool and not line.startswith("#"):
            return words[3]
    raise SynthesisError(f"scripts/versions does not pin {tool}")


def engine_build(width, overrides=None, changed=None):
    """The whole engine in the few-pin wrapper at `width` bits.

    changed: relative name -> path of a file that takes its place (for mutants).
    """
    sources, found = rtl()
    check_wrapper(found[ENGINE])
    paths = [s.path for s in rtlfiles.files_for(sources, found, ENGINE)] + [WRAPPER]
    if changed:
        unknown = set(changed) - {str(p.relative_to(ROOT)) for p in paths}
        if unknown:
            raise SynthesisError(f"{', '.join(sorted(unknown))}: not a file of the engine")
        paths = [changed.get(str(p.relative_to(ROOT)), p) for p in paths]
    return Build("inc_synth_top", paths, parameters(found[ENGINE], width, overrides))


# A wrapper like fpga/synth/inc_synth_top.sv, for any module: the same shift chain and tree of XORs.
MODULE_WRAPPER = """`default_nettype none
module inc_synth_module #({parameters}) (
  input wire clk, input wire rst, input wire si, output wire so
);
  localparam int INNER = ({outs} + 1) / 3 + 1; // never 0
  localparam int NODES = 4 * INNER + 1;
  logic rst_q;
  logic [{ins}:0] in_q;
  logic [NODES-1:0] node_q;
  wire [{outs}-1:0] out;
  always_ff @(posedge clk) begin
    rst_q <= rst;
    in_q <= {{in_q[{ins}-1:0], si}};
    for (int i = 0; i < INNER; i++) node_q[i] <= ^node_q[4*i+1 +: 4];
    node_q[NODES-1:INNER] <= (NODES - INNER)'(out);
  end
  assign so = node_q[0];
  {module} #({handed_on}) u_engine ({ports});
endmodule
`default_nettype wire
"""


def module_build(name, width, overrides=None):
    """One module by itself at `width` bits, between registers, with the parameters of HELD_BUILD."""
    sources, found = rtl()
    if name not in found:
        raise SynthesisError(f"no module {name} in {where(rtlfiles.TOP_LIST)}")
    chosen = parameters(found[name], width, overrides)
    if "DATA_W" not in found[name].parameters:
        del chosen["DATA_W"]
    paths = [s.path for s in rtlfiles.files_for(sources, found, name)]
    BUILD.mkdir(parents=True, exist_ok=True)
    read = Build(name, paths, chosen)
    listed = BUILD / f"{read.name}-ports.json"
    run_tool([str(VENV / "bin" / "python"), "-c", WORKER, *read.commands(BUILD)[:2],
              f"write_json {listed}"], BUILD / f"{read.name}-ports.log", f"yosys, ports of {name}")
    at = {"input": 0, "output": 0}
    joined = []
    for port, known in json.loads(listed.read_text())["modules"][name]["ports"].items():
        if port in ("clk", "rst"):
            joined.append(f".{port}({'clk' if port == 'clk' else 'rst_q'})")
            continue
        side, bits = known["direction"], len(known["bits"])
        joined.append(f".{port}({'in_q' if side == 'input' else 'out'}[{at[side]} +: {bits}])")
        at[side] += bits
    text = MODULE_WRAPPER.format(
        module=name, ins=at["input"], outs=at["output"], ports=", ".join(joined),
        parameters=", ".join(f"parameter int {k} = 0" for k in chosen) or "parameter int NONE = 0",
        handed_on=", ".join(f".{k}({k})" for k in chosen))
    wrapper = BUILD / f"{read.name}-wrapper.sv"
    wrapper.write_text(text)
    return Build("inc_synth_module", paths + [wrapper], chosen)


def rtl():
    """All sources of rtl/rtl.f, and the modules in them by name."""
    sources = rtlfiles.read_list(rtlfiles.TOP_LIST)
    return sources, rtlfiles.modules(sources)


def parameters(engine, width, overrides=None):
    """Those of HELD_BUILD that the engine has, with `overrides`, at `width` bits."""
    chosen = {k: v for k, v in HELD_BUILD.items() if k in engine.parameters}
    return {**chosen, "DATA_W": width, **(overrides or {})}


def check_wrapper(engine):
    """Raises unless the wrapper hands on every parameter and connects every port of the engine."""
    code = rtlfiles.code_of(WRAPPER)
    header = rtlfiles.code_of(engine.source.path).split(");", 1)[0]
    ports = re.findall(r"^\s*(?:input|output)\b[^,)]*?(\w+)\s*,?\s*$", header, re.M)
    if not ports:
        raise SynthesisError(f"{engine.source.name}: found no ports")
    connected = set(re.findall(r"\.(\w+)\s*\(", code))
    missing = [n for n in sorted(engine.parameters) + ports if n not in connected]
    if missing:
        raise SynthesisError(f"{WRAPPER.relative_to(ROOT)} does not connect {', '.join(missing)} of "
                             f"{ENGINE}: add them there, inputs to in_q, outputs to out")


def run_tool(command, log, what):
    """Runs one tool with its output in `log`; returns its Run, raises if it fails."""
    start = time.monotonic()
    with open(log, "wb") as out:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, process_group=0,
                                 env=dict(os.environ, LC_ALL="C"))
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)  # with what it has started: yosys-abc
            child.wait()
            raise
    child.returncode = os.waitstatus_to_exitcode(status)
    run = Run(time.monotonic() - start, usage.ru_maxrss / 1024)
    if child.returncode != 0:
        tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-12:])
        raise SynthesisError(f"{what}: exit {child.returncode} after {run.seconds:.0f} s; the end of "
                             f"{where(log)}:\n{tail}")
    return run


def stop_on_term():
    """A SIGTERM ends the tool that runs, as an interrupt from the keyboard does."""
    def stop(number, frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, stop)


def where(path):
    """A path as a reader of the repository knows it."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def synthesise(build):
    """Yosys, unless this very build is there. Returns its Run."""
    done = build.folder / "yosys.json"
    if done.is_file():
        return Run(**json.loads(done.read_text()))
    python = VENV / "bin" / "python"
    if not python.exists():
        raise SynthesisError("no .tools/venv: run `scripts/setup synth`")
    build.folder.mkdir(parents=True, exist_ok=True)
    netlist = build.folder / "netlist.json"
    netlist.unlink(missing_ok=True)
    log = build.folder / "yosys.log"
    run = run_tool([str(python), "-c", WORKER] + build.commands(build.folder), log,
                   f"yosys, {build.top} {build.parameters}")
    bad = dict.fromkeys(l for l in log.read_text(errors="replace").splitlines()
                        if re.search(r"\b(warning|error):", l, re.I) and not HARMLESS.search(l))
    if bad:
        raise SynthesisError(f"yosys warned, see {where(log)}:\n" + "\n".join(list(bad)[:20]))
    # A front end that fails without saying so leaves no netlist, or an empty one.
    if not netlist.is_file() or not cells(build):
        raise SynthesisError(f"yosys ended well but left no netlist with cells: {where(log)}")
    done.write_text(json.dumps(vars(run)))
    return run


def netlist(build):
    """The top module of the netlist, as Yosys' JSON has it."""
    return json.loads((build.folder / "netlist.json").read_text())["modules"][build.top]


def cells(build):
    """Counter of the cells of the flattened netlist by type."""
    stat = json.loads((build.folder / "stat.json").read_text())
    design = stat.get("design") or stat["modules"]["\\" + build.top]
    return Counter(design["num_cells_by_type"])


def utilisation(count):
    """The figures of the report out of a Counter of cells by type."""
    return {"lut4": count["LUT4"] + 2 * count["CCU2C"],  # each CCU2C takes two LUT4
            "carry": count["CCU2C"], "ff": count["TRELLIS_FF"], "block_ram": count["DP16KD"],
            "distributed_ram": count["TRELLIS_DPR16X4"], "multiplier": count["MULT18X18D"]}


def instances(build):
    """Instance path -> name of its module, of every instance below the top."""
    found = {}
    for line in (build.folder / "modules.txt").read_text().splitlines():
        match = re.match(r"\s+(\w+)\$" + re.escape(build.top) + r"\.(\S+)$", line)
        if match:
            found[match[2]] = match[1]
    return found


def owner(name, known):
    """Path of the instance that a cell or net of the flattened netlist is named after."""
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        path = ".".join(parts[:n])
        if path in known:
            return path
    return ""


def cells_by_instance(build):
    """Instance path -> Counter of its cells. LUTs have the name of a net near them: about right."""
    known = instances(build)
    if not known:
        raise SynthesisError(f"{where(build.folder / 'modules.txt')}: no instance below {build.top}")
    found = {}
    for name, cell in netlist(build)["cells"].items():
        found.setdefault(owner(name, known), Counter())[cell["type"]] += 1
    return found


@dataclass
class Memory:
    """A memory or a register in flip-flops: its name, bits, place in the source, kind."""

    name: str
    bits: int
    source: str
    kind: str


def memories_in_ffs(build):
    """Memories of the RTL that found no RAM and so became flip-flops, the largest first."""
    text = (build.folder / "memories.rtlil").read_text()
    found = []
    for cell in re.split(r"\n(?=\s*(?:attribute .*\n\s*)*cell )", text):
        if not re.search(r"^\s*cell \$mem_v2 ", cell, re.M):
            continue
        get = {m[1]: m[2] for m in re.finditer(r"parameter (?:signed )?\\(\w+) (.*)", cell)}
        if number(get["WR_PORTS"]) == 0:
            continue  # a table of constants
        place = re.search(r'attribute \\src "([^"]*)"', cell)
        found.append(Memory(get["MEMID"].strip('"').lstrip("\\"),
                            number(get["SIZE"]) * number(get["WIDTH"]),
                            place[1] if place else "?", "memory"))
    return sorted(found, key=lambda m: -m.bits)


def number(text):
    """Value of an RTLIL constant: 12 or 32'0101."""
    return int(text.split("'")[1], 2) if "'" in text else int(text)


def registers(build):
    """Registers of the netlist by name, indices of arrays and generate loops left out.

    A memory that the front end dissolved (reset in one clock, read whole) shows up here alone.
    """
    top = netlist(build)
    names = {}
    for name, net in top["netnames"].items():
        for bit in net["bits"]:
            if isinstance(bit, int):
                key = (name.count("."), name.endswith("_q"), name)
                if bit not in names or key > names[bit][0]:
                    names[bit] = (key, net["attributes"].get("src", "?"))
    found = {}
    for name, cell in top["cells"].items():
        if cell["type"] != "TRELLIS_FF":
            continue
        key, source = names[cell["connections"]["Q"][0]]
        base = re.sub(r"\[\d+\]", "", key[2])
        memory = found.setdefault(base, Memory(base, 0, source, "register"))
        memory.bits += 1
    return sorted(found.values(), key=lambda m: -m.bits)


def commit():
    """The commit of the work tree, with + if tracked files differ from it."""
    git = ["git", "-C", str(ROOT)]
    sha = subprocess.run(git + ["rev-parse", "--short=12", "HEAD"], check=True, text=True,
                         capture_output=True).stdout.strip()
    dirty = subprocess.run(git + ["status", "--porcelain", "-uno", "--", "rtl", "fpga"], check=True,
                           text=True, capture_output=True).stdout.strip()
    return sha + ("+" if dirty else "")
