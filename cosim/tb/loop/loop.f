// Loopback in place of the engine: for the tests of the link.
inc_engine_loop_core.sv
inc_engine.sv
