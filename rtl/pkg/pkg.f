// Packages, in the order in which they use each other.
inc_spec_pkg.sv
inc_uart_pkg.sv
inc_build_pkg.sv
inc_pkg.sv
