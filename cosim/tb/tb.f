// Test bench of the engine, around whatever module is called inc_engine.
inc_tb_pkg.sv
inc_axis_source.sv
inc_axis_sink.sv
inc_axil_master.sv
inc_probe.sv
inc_tb.sv
