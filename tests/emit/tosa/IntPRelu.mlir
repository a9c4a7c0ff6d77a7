"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x800200008001000080000000"> : tensor<1x3xi32>}> : () -> tensor<1x3xi32>
    %c5 = "tosa.const"() <{values = dense<"0xE7E7E6E6E6E6E5E5E5E4E4E5E5E6E7E8E8E9EAEBEBECEDEEEEEFF0F1F1F2F3F3F4F5F6F6F7F8F9F9FAFBFCFCFDFEFEFF000101020304040506070708090A0A0B0C0C0D0E0F0F101112121314151516171818191A1A1B1C1D1D1E1F20202122232324252526272828292A2B2B2C2D2E2E2F30313132333334353636373839393A3B3C3C3D3E3F3F404141424344444546474748494A4A4B4C4C4D4E4F4F505152525354555556575858595A5A5B5C5D5D5E5F60606162636364656666676868696A6B6B6C6D6E6E6F70717172737374757676777879797A7B7C7C7D7E7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7FE4E4E4E4E4E4E4E4E4E4E4E5E5E6E7E8E8E9EAEBEBECEDEEEEEFF0F1F1F2F3F3F4F5F6F6F7F8F9F9FAFBFCFCFDFEFEFF000101020304040506070708090A0A0B0C0C0D0E0F0F101112121314151516171818191A1A1B1C1D1D1E1F20202122232324252526272828292A2B2B2C2D2E2E2F30313132333334353636373839393A3B3C3C3D3E3F3F404141424344444546474748494A4A4B4C4C4D4E4F4F505152525354555556575858595A5A5B5C5D5D5E5F60606162636364656666676868696A6B6B6C6D6E6E6F70717172737374757676777879797A7B7C7C7D7E7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7FE2E2E3E3E3E3E3E3E4E4E4E5E5E6E7E8E8E9EAEBEBECEDEEEEEFF0F1F1F2F3F3F4F5F6F6F7F8F9F9FAFBFCFCFDFEFEFF000101020304040506070708090A0A0B0C0C0D0E0F0F101112121314151516171818191A1A1B1C1D1D1E1F20202122232324252526272828292A2B2B2C2D2E2E2F30313132333334353636373839393A3B3C3C3D3E3F3F404141424344444546474748494A4A4B4C4C4D4E4F4F505152525354555556575858595A5A5B5C5D5D5E5F60606162636364656666676868696A6B6B6C6D6E6E6F70717172737374757676777879797A7B7C7C7D7E7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F7F"> : tensor<1x768x1xi8>}> : () -> tensor<1x768x1xi8>
    %c6 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c7 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %2 = "tosa.add"(%1, %c4) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %3 = "tosa.reshape"(%2, %c6) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %4 = "tosa.gather"(%c5, %3) : (tensor<1x768x1xi8>, tensor<1x6xi32>) -> tensor<1x6x1xi8> loc("node")
    %5 = "tosa.reshape"(%4, %c7) : (tensor<1x6x1xi8>, !tosa.shape<2>) -> tensor<2x3xi8> loc("node")
    %6 = "tosa.rescale"(%5, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%6) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
