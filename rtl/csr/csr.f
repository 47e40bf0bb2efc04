// Registers and counters. inc_csr*.sv are generated from rtl/spec/inc_csr.rdl.
inc_csr_pkg.sv    // slang only: unpacked structs
inc_csr.sv        // slang only: unpacked structs
inc_csr_block.sv  // slang only: connects to them
inc_axil.sv
inc_counters.sv
