// Test bench of the engine, around whatever module is called inc_engine.
+incdir+.
inc_axis_source.sv
inc_axis_sink.sv
inc_axil_master.sv
inc_probe.sv
inc_tb.sv
