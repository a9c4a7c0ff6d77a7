"""Planes: words as two tensors of bytes, for kernels of bytes: x = 256 * high + low.

The two planes are uint8: ``high`` with zero point 128 holds -128 to 127, ``low`` with zero
point 0 holds 0 to 255. Products of two of them saturate in no kernel, and a sum of n of them
is at most n * 255**2: int32 holds that of 33,025. Padding with the zero points is padding with
the word 0.
"""

from opsets.fragments import fragment

PLANES = fragment("""
planes (x) => (high, high_zero, low, low_zero) {
    # the word lifted by 2**15, which is the zero point 128 of the high byte
    wide      = Cast <to = 6> (x)                                          # 6 is INT32
    offset    = Constant <value = int32 {32768}> ()
    lifted    = Add (wide, offset)
    bits      = Cast <to = 12> (lifted)                                    # 12 is UINT32
    eight     = Constant <value = uint32 {8}> ()
    low_mask  = Constant <value = uint32 {255}> ()
    high_bits = BitShift <direction = "RIGHT"> (bits, eight)
    low_bits  = BitwiseAnd (bits, low_mask)
    high      = Cast <to = 2> (high_bits)                                  # 2 is UINT8
    low       = Cast <to = 2> (low_bits)
    high_zero = Constant <value = uint8 {128}> ()
    low_zero  = Constant <value = uint8 {0}> ()
}
""")
"""The planes of int16 ``x``, whose zero point is 0, and their zero points."""
