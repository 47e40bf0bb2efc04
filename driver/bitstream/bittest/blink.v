// A counter and a ROM that shows on an LED: the least that has logic, wires and an initialised block RAM.
module top (
  input  wire clk,
  output wire led
);
  reg [23:0] count = 0;
  (* ram_style = "block" *) reg [7:0] rom [0:1023];
  reg [7:0]  value;
  integer i;
  initial for (i = 0; i < 1024; i = i + 1) rom[i] = (i * 37) ^ (i >> 3);
  always @(posedge clk) begin
    count <= count + 1;
    value <= rom[count[23:14]];
  end
  assign led = ^value;
endmodule
