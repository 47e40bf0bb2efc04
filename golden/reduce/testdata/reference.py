"""What each operator gives on each element type, by MPFR (through gmpy2) and Python's unbounded integers.

Reads batches from stdin until its end, each: u32 count, u8 type, u8 operator, 2 bytes 0 (the numbers of
rtl/spec/inc.yaml), then `count` elements a and as many b, all little-endian. Writes `count` results for each.
MPFR computes in the format's own precision and exponent range, subnormals too, rounded to nearest even; Python's
struct only takes numbers to bits and back, all of which are in the format.
"""

import array
import operator
import struct
import sys

import gmpy2

NAMES = ["int32", "uint32", "int64", "float32", "float16", "bfloat16", "int8"]
OPS = ["sum", "min", "max", "and", "or", "xor"]
INTEGERS = {"int32": "i", "uint32": "I", "int64": "q", "int8": "b"}
# bytes, precision, MPFR's exponent limits (of 0.5 <= |m| < 1), canonical NaN
FLOATS = {
    "float32": (4, 24, 128, -148, 0x7FC00000),
    "float16": (2, 11, 16, -23, 0x7E00),
    "bfloat16": (2, 8, 128, -132, 0x7FC0),
}


def integers(name, op, a, b):
    code = INTEGERS[name]
    a, b = array.array(code, a), array.array(code, b)
    bits = 8 * a.itemsize
    if op == "sum" and name == "int8":
        out = [max(-128, min(127, x + y)) for x, y in zip(a, b)]
    elif op == "sum":
        low = 0 if name == "uint32" else -(1 << bits - 1)
        out = [(x + y - low) % (1 << bits) + low for x, y in zip(a, b)]
    else:
        f = {"min": min, "max": max, "and": operator.and_, "or": operator.or_, "xor": operator.xor}[op]
        out = list(map(f, a, b))
    return array.array(code, out).tobytes()


def decode(name, raw):
    if name == "float16":
        values = struct.unpack(f"<{len(raw) // 2}e", raw)
    elif name == "float32":
        values = array.array("f", raw)
    else:
        values = array.array("f", array.array("I", [x << 16 for x in array.array("H", raw)]).tobytes())
    return map(gmpy2.mpfr, values)


def encode(name, values):
    nan = FLOATS[name][4]
    values = list(map(float, values))  # exact: a double has more of everything
    if name == "float16":
        out = array.array("H", struct.pack(f"<{len(values)}e", *values))
    else:
        out = array.array("I", array.array("f", values).tobytes())
        if name == "bfloat16":
            # of no number is anything lost: it has 8 bits of precision
            assert all(x & 0xFFFF == 0 for x, v in zip(out, values) if v == v)
            out = array.array("H", [x >> 16 for x in out])
    for i, v in enumerate(values):
        if v != v:
            out[i] = nan
    return out.tobytes()


def floats(name, op, a, b):
    _, precision, emax, emin, _ = FLOATS[name]
    f = {"sum": gmpy2.add, "min": gmpy2.minnum, "max": gmpy2.maxnum}[op]
    with gmpy2.context(precision=precision, emax=emax, emin=emin, subnormalize=True, round=gmpy2.RoundToNearest):
        return encode(name, map(f, decode(name, a), decode(name, b)))


def main():
    if sys.byteorder != "little" or array.array("I").itemsize != 4:
        sys.exit("reference: wants a little-endian machine with ints of 32 bits")
    while head := sys.stdin.buffer.read(8):
        count, dtype, op, _ = struct.unpack("<IBBH", head)
        name, op = NAMES[dtype], OPS[op]
        size = FLOATS[name][0] if name in FLOATS else array.array(INTEGERS[name]).itemsize
        a, b = sys.stdin.buffer.read(count * size), sys.stdin.buffer.read(count * size)
        if len(b) != count * size:
            sys.exit(f"reference: got {len(a) + len(b)} bytes of a batch, want {2 * count * size}")
        sys.stdout.buffer.write((floats if name in FLOATS else integers)(name, op, a, b))


main()
