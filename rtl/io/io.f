// Serial line, flash and what is between them and the registers: the UART bridge of docs/serial.md.
inc_axil_host.sv
inc_bridge.sv
inc_crc32.sv
inc_flash.sv
inc_frame_rx.sv
inc_frame_tx.sv
inc_uart_bridge.sv
inc_uart_rx.sv
inc_uart_tx.sv
