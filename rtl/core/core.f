// The engine's stages: the words of the paper and what connects them.
inc_aggregate_data.sv
inc_alu.sv
inc_check_duplicate.sv
inc_lookup_table.sv
inc_recycle_buffer.sv
inc_send_ack.sv
inc_slot_ram.sv
