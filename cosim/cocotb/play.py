"""Plays a run's register accesses and frames into inc_engine, the way most benches do it: cocotb and
cocotbext-axi, no model. It is the named peer of `epic bench cosim`; scripts/cocotb-bench builds and runs it.

EPIC_SCRIPT  JSON lines: {"write": [addr, data]}, {"read": addr}, {"frame": [clock, port, hex]},
             {"until": clock}; clocks count from the end of reset
EPIC_REPORT  file for {"clocks", "wall_s", "frames_in", "frames_out"}
"""

import json
import logging
import os
import time

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

PERIOD_NS = 4


@cocotb.test()
async def play(dut):
    with open(os.environ["EPIC_SCRIPT"], encoding="ascii") as f:
        script = [json.loads(line) for line in f]
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, PERIOD_NS, unit="ns").start())
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_rx"), dut.clk, dut.rst)
    sinks = [AxiStreamSink(AxiStreamBus.from_prefix(dut, name), dut.clk, dut.rst)
             for name in ("m_axis_tx", "m_axis_bypass")]
    registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    logging.getLogger("cocotb.inc_engine").setLevel("WARNING")  # a line for every frame would be what is measured
    await ClockCycles(dut.clk, 8)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    reset_ends = now()

    frames_in = until = 0
    started = None
    for step in script:
        if "write" in step:
            addr, data = step["write"]
            await registers.write_dword(addr, data)
        elif "read" in step:
            await registers.read_dword(step["read"])
        elif "frame" in step:
            at, port, data = step["frame"]
            if started is None:
                started = time.perf_counter(), now()
            wait = at - (now() - reset_ends)
            if wait > 0:
                await ClockCycles(dut.clk, wait)
            await source.send(AxiStreamFrame(bytes.fromhex(data), tid=port, tuser=0))
            frames_in += 1
        else:
            until = step["until"]
    wait = until - (now() - reset_ends)
    if wait > 0:
        await ClockCycles(dut.clk, wait)
    wall, clock = started
    report = {"clocks": now() - clock, "wall_s": time.perf_counter() - wall, "frames_in": frames_in,
              "frames_out": sum(sink.count() for sink in sinks)}
    with open(os.environ["EPIC_REPORT"], "w", encoding="ascii") as f:
        json.dump(report, f)


def now():
    """Clocks since the simulation began."""
    return int(cocotb.utils.get_sim_time("ns")) // PERIOD_NS

