// The core of every board; behind rtl/rtl.f.
inc_board_core.sv
inc_l2_forward.sv
inc_mac_port.sv
inc_rx_merge.sv
