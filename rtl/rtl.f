// All of the engine's RTL, packages first.
-F pkg/pkg.f
-F prim/prim.f
-F wire/wire.f
-F core/core.f
-F csr/csr.f
-F io/io.f
inc_engine.sv
