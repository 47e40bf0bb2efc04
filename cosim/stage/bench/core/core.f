// Benches of single stages, over the modules of rtl/rtl.f.
inc_bench_pkg.sv
inc_bench_source.sv
inc_bench_sink.sv
inc_bench_watch.sv
inc_bench_lookup.sv
inc_bench_alu.sv
inc_bench_check.sv
inc_bench_aggregate.sv
inc_bench_send_ack.sv
inc_bench_receive_ack.sv
inc_bench_recycle.sv
inc_bench_retransmission.sv
inc_bench_translate.sv
inc_bench_replicate.sv
inc_bench_pipe.sv
inc_bench_hand_on.sv
inc_bench.sv
