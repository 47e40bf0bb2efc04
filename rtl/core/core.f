// The engine's stages: the words of the paper and what connects them.
inc_aggregate_data.sv
inc_alu.sv
inc_check_duplicate.sv
inc_core.sv
inc_forward.sv
inc_lookup_table.sv
inc_out_walk.sv
inc_pipe.sv
inc_receive_ack.sv
inc_recycle_buffer.sv
inc_replicate_data.sv
inc_retransmission.sv
inc_send_ack.sv
inc_slot_ram.sv
inc_translate_header.sv
