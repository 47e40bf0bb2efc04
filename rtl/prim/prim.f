// Primitives: each small, each by itself.
inc_fifo.sv
inc_frame_cdc.sv
inc_lutram.sv
inc_pass.sv
inc_ram_1r1w.sv
inc_ram_tdp.sv
inc_rr_arb.sv
inc_skid.sv
