//go:generate sh -c "go run . > ../inc_icrc_pkg.sv"

// Command icrcgen writes rtl/wire/inc_icrc_pkg.sv: the ICRC as matrices over GF(2), for every DATA_W.
//
//	go run ./rtl/wire/icrcgen > rtl/wire/inc_icrc_pkg.sv
//
// Why a generated file: the matrices could be computed by constant functions during elaboration, but
// those take native yosys minutes; as constants they cost nothing.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	w := bufio.NewWriter(os.Stdout)
	write(w)
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "icrcgen: writing the package:", err)
		os.Exit(1)
	}
}
