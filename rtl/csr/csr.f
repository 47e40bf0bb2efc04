// Registers: the generated block, and the counters and tables behind it.
inc_csr_pkg.sv  // slang only: unpacked structs
inc_csr.sv      // slang only: unpacked structs
inc_counters.sv
