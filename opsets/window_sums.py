"""The int32 accumulator of a convolution: sums of products over windows, plus a bias."""

from opsets.fragments import fragment

SUMS = fragment("""
sums <geometry> (x, x_zero, w, w_zero, bias) => (acc) {
    # int8 weights as uint8, moved up by 128: the kernel for these is several times faster
    top       = Constant <value = uint8 {128}> ()
    wide_top  = Cast <to = 6> (top)                                        # 6 is INT32
    like_w    = CastLike (top, w)                                          # 128 or -128
    wide_like = Cast <to = 6> (like_w)
    apart     = Sub (wide_top, wide_like)
    two_of    = Constant <value = int32 {2}> ()
    offset_w  = Div (apart, two_of)                                        # 0 or 128
    wide_w    = Cast <to = 6> (w)
    moved_w   = Add (wide_w, offset_w)
    w_u8      = Cast <to = 2> (moved_w)                                    # 2 is UINT8
    wide_zero = Cast <to = 6> (w_zero)
    moved_z   = Add (wide_zero, offset_w)
    zero_u8   = Cast <to = 2> (moved_z)
    products  = ConvInteger <@geometry> (x, w_u8, x_zero, zero_u8)
    # the bias as a column along axis 1, for any number of spatial dimensions
    shape     = Shape (w)
    rank      = Shape (shape)
    pair      = Constant <value = int64[1] {2}> ()
    spatial   = Sub (rank, pair)
    ones      = ConstantOfShape <value = int64[1] {1}> (spatial)
    any_size  = Constant <value = int64[1] {-1}> ()
    bias_size = Concat <axis = 0> (any_size, ones)
    bias_1    = Reshape (bias, bias_size)
    acc       = Add (products, bias_1)
}
""")
"""``geometry``: what ConvInteger gets of the attributes."""
