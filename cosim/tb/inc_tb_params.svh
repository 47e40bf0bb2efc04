// Numbers of inc_dpi_param, as in cosim/dpi/inc_dpi.h.
localparam int PARAM_SEED             = 0;
localparam int PARAM_PACING           = 1;
localparam int PARAM_IDLE_PPM         = 2;
localparam int PARAM_BACKPRESSURE_PPM = 3;
localparam int PARAM_BYPASS_PPM       = 4;
localparam int PARAM_PROBE            = 5;
localparam int PARAM_CAPTURE          = 6;
