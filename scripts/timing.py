"""Static timing of a routed netlist, from the SDF file that nextpnr writes.

nextpnr itself shows the one worst path of a clock; here is the worst path to every register, so that
many can be shown at once, grouped by the registers where they begin and end.
"""

import re
from dataclasses import dataclass, field


class TimingError(Exception):
    """An SDF file that is not what was expected."""


@dataclass
class Step:
    """One cell on a path: its name, the delay of the wire to it, its own delay (ns)."""

    cell: str
    wire: float
    logic: float


@dataclass
class Path:
    """The worst path to one register: its length with set-up time (ns), the registers, the steps."""

    length: float
    setup: float
    steps: list

    @property
    def begin(self):
        return register(self.steps[0].cell)

    @property
    def end(self):
        return register(self.steps[-1].cell)

    @property
    def levels(self):
        """Cells between the two registers."""
        return len(self.steps) - 2

    @property
    def wire(self):
        """Part of the length that is wires, ns."""
        return sum(s.wire for s in self.steps)


@dataclass
class Timing:
    """What the SDF file says. Pins are (cell, pin)."""

    cells: list = field(default_factory=list)
    arcs: dict = field(default_factory=dict)     # pin -> [(pin, ns)]
    launch: dict = field(default_factory=dict)   # output pin -> ns after the clock's edge
    setup: dict = field(default_factory=dict)    # input pin -> ns before the clock's edge


_NAME = r"(?:\\.|[^\s()\\])+"
_TRIPLE = r"\([^()]*\)"
_LINES = {
    "instance": re.compile(rf"\(INSTANCE\s*({_NAME})?\s*\)"),
    "arc": re.compile(rf"\(IOPATH ({_NAME}) ({_NAME}) ({_TRIPLE}.*)\)"),
    "setup": re.compile(rf"\(SETUPHOLD \(\w+ ({_NAME})\) \(\w+ ({_NAME})\) ({_TRIPLE})"),
    "wire": re.compile(rf"\(INTERCONNECT ({_NAME}) ({_NAME}) ({_TRIPLE}.*)\)"),
}


def _ns(text):
    """Largest delay in ns: the file has (min:typ:max) triples in ps."""
    values = [float(v) for v in re.findall(r"-?[\d.]+", text)]
    if not values:
        raise TimingError(f"no delay in {text!r}")
    return max(values) / 1000


def _plain(name):
    return re.sub(r"\\(.)", r"\1", name)


def _pin(text):
    cell, _, pin = _plain(text).rpartition("/")
    return cell, pin


def read_sdf(path):
    """Reads nextpnr's SDF file."""
    timing = Timing()
    instance, clocks = "", set()
    with open(path) as lines:
        for line in lines:
            line = line.strip()
            if line.startswith("(INTERCONNECT"):
                match = _LINES["wire"].match(line)
                timing.arcs.setdefault(_pin(match[1]), []).append((_pin(match[2]), _ns(match[3])))
            elif line.startswith("(INSTANCE"):
                match = _LINES["instance"].match(line)
                instance = _plain(match[1] or "")
                timing.cells.append(instance)
            elif line.startswith("(IOPATH"):
                match = _LINES["arc"].match(line)
                timing.arcs.setdefault((instance, _plain(match[1])), []).append(
                    ((instance, _plain(match[2])), _ns(match[3])))
            elif line.startswith("(SETUPHOLD"):
                match = _LINES["setup"].match(line)
                timing.setup[instance, _plain(match[1])] = _ns(match[3])
                clocks.add(_plain(match[2]))
    # A delay from a clock pin is where paths begin.
    for pin in [p for p in timing.arcs if p[1] in clocks]:
        for target, ns in timing.arcs.pop(pin):
            timing.launch[target] = max(ns, timing.launch.get(target, 0.0))
    if not timing.launch or not timing.setup:
        raise TimingError(f"{path}: no register in it")
    return timing


# Delays of the ECP5's cells at speed grade 8 (ns), as nextpnr has them, and of an average wire: what
# a path costs before place and route.
_LUT, _MUX, _CARRY_IN, _CARRY, _CLOCK_TO_Q, _SETUP = 0.18, 0.19, 0.35, 0.06, 0.40, 0.23
_RAM_CLOCK_TO_Q, _MULTIPLY = 3.98, 3.9
_WIRE, _WIRE_FANOUT, _WIRE_FANOUT_MAX = 0.55, 0.012, 1.4


def estimate(module):
    """Timing of a netlist (a module of Yosys' JSON) that is not placed: wires by their fan-out."""
    timing = Timing()
    drivers, loads = {}, {}
    for name, cell in module["cells"].items():
        kind = cell["type"]
        ins, outs = [], []
        for port, bits in cell["connections"].items():
            side = outs if cell["port_directions"][port] == "output" else ins
            for n, bit in enumerate(bits):
                pin = (name, f"{port}{n}" if len(bits) > 1 else port)
                side.append((port, pin))
                if isinstance(bit, int):
                    if side is outs:
                        drivers[bit] = (pin, kind)
                    else:
                        loads.setdefault(bit, []).append((port, pin, kind))
        if kind == "TRELLIS_FF":
            timing.launch.update((pin, _CLOCK_TO_Q) for _, pin in outs)
            timing.setup.update((pin, _SETUP) for port, pin in ins if port != "CLK")
        elif kind == "DP16KD":
            timing.launch.update((pin, _RAM_CLOCK_TO_Q) for _, pin in outs)
            timing.setup.update((pin, _SETUP) for port, pin in ins if not port.startswith("CLK"))
        else:
            for port, pin in ins:
                if kind == "TRELLIS_DPR16X4" and port != "RAD":
                    if port != "WCK":
                        timing.setup[pin] = _SETUP
                    continue
                arcs = timing.arcs.setdefault(pin, [])
                for target, out in outs:
                    arcs.append((out, _cell_delay(kind, port, target)))
    for bit, (out, kind) in drivers.items():
        far = loads.get(bit, [])
        for port, pin, load in far:
            inside = (kind == "CCU2C" and port == "CIN") or (
                load in ("PFUMX", "L6MUX21") and port in ("ALUT", "BLUT", "D0", "D1"))
            ns = 0.0 if inside else min(_WIRE_FANOUT_MAX, _WIRE + _WIRE_FANOUT * len(far))
            timing.arcs.setdefault(out, []).append((pin, ns))
    return timing


def _cell_delay(kind, port, target):
    if kind == "CCU2C":
        return _CARRY if port == "CIN" and target == "COUT" else _CARRY_IN
    if kind in ("PFUMX", "L6MUX21"):
        return _MUX if port in ("C0", "SD") else 0.0
    return _MULTIPLY if kind == "MULT18X18D" else _LUT


def worst_paths(timing):
    """The worst Path to every register input that a register reaches, the longest first."""
    incoming, at, before = {}, dict(timing.launch), {}
    for arcs in timing.arcs.values():
        for pin, _ in arcs:
            incoming[pin] = incoming.get(pin, 0) + 1
    pins = set(timing.arcs) | set(incoming) | set(timing.launch)
    ready = [p for p in pins if p not in incoming]
    seen = 0
    while ready:
        pin = ready.pop()
        seen += 1
        for target, ns in timing.arcs.get(pin, ()):
            if pin in at and at[pin] + ns > at.get(target, -1.0):
                at[target] = at[pin] + ns
                before[target] = pin
            incoming[target] -= 1
            if incoming[target] == 0:
                ready.append(target)
    if seen != len(pins):
        looped = sorted(p for p, n in incoming.items() if n > 0)
        raise TimingError(f"{len(pins) - seen} pins are in or behind combinational loops, as "
                          f"{'/'.join(looped[0])}")
    ends = sorted(((at[p] + s, p) for p, s in timing.setup.items() if p in at and p in before),
                  key=lambda e: -e[0])
    return [_path(length, pin, at, before, timing) for length, pin in ends]


def _path(length, pin, at, before, timing):
    setup = timing.setup[pin]
    pins = [pin]
    while pins[-1] in before:
        pins.append(before[pins[-1]])
    pins.reverse()  # launch, then input and output of each cell, then the end's input
    steps = [Step(pins[0][0], 0.0, at[pins[0]])]
    for left, right in zip(pins, pins[1:]):
        delay = at[right] - at[left]
        if right[0] == left[0]:
            steps[-1].logic += delay
        else:
            steps.append(Step(right[0], delay, 0.0))
    steps[-1].logic += setup
    return Path(length, setup, steps)


_CELLS = "LUT4|PFUMX|L6MUX21|CCU2C|TRELLIS_FF|DP16KD|MULT18X18D|TRELLIS_DPR16X4"


def register(cell):
    """Name of a register or memory in the RTL, out of a cell of it; indices are left out."""
    return re.sub(r"\[\d+\]", "[*]", shown(cell))


def shown(cell):
    """Name of the net or memory in the RTL that a cell is named after."""
    name = re.split(rf"_(?:{_CELLS})_", cell.split("$", 1)[0] or cell)[0]
    return re.split(r"\.\d", name)[0]  # mem.0.3_DO: no name of the RTL begins with a digit


def kind(cell):
    """What a cell is, out of its name."""
    if "CCU2" in cell.rsplit("$", 1)[-1]:
        return "carry"
    kinds = re.findall(rf"_({_CELLS})_", cell)
    if not kinds or re.search(r"\.\d", cell.rsplit(kinds[-1], 1)[1]):
        return "RAM"
    return {"TRELLIS_FF": "FF", "L6MUX21": "mux", "PFUMX": "mux", "CCU2C": "carry", "LUT4": "LUT",
            "MULT18X18D": "mult"}.get(kinds[-1], "RAM")


def merged(steps):
    """(name, kind, cells, wire ns, logic ns) of steps, those of one kind after one name together."""
    out = []
    for step in steps:
        name, what = shown(step.cell), kind(step.cell)
        if out and out[-1][:2] == [name, what]:
            out[-1][2] += 1
            out[-1][3] += step.wire
            out[-1][4] += step.logic
        else:
            out.append([name, what, 1, step.wire, step.logic])
    return out


def grouped(paths):
    """(begin, end) -> its Paths, the worst first, the groups by their worst."""
    found = {}
    for path in paths:
        found.setdefault((path.begin, path.end), []).append(path)
    return found
