// Frames in and out: parse, deparse, ICRC, bypass.
inc_icrc_pkg.sv
inc_bypass.sv
inc_deparse.sv
inc_frame_shape.sv
inc_icrc_check.sv
inc_icrc_cover.sv
inc_icrc_gen.sv
inc_icrc_partial.sv
inc_parse.sv
inc_parse_queue.sv
inc_udp_check.sv
