"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4x3xi8>, tensor<2x1x3xi8>) -> (tensor<2x4x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x4x3xi8>, %arg1: tensor<2x1x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 24, 1]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 6, 1]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c6 = "tosa.const"() <{values = dense<"0x00000000010000000200000003000000040000000500000006000000070000000800000018000000190000001A0000001B0000001C0000001D0000000F0000001000000011000000120000001300000014000000150000001600000017000000"> : tensor<1x24xi32>}> : () -> tensor<1x24xi32>
    %c7 = "tosa.const_shape"() <{values = dense<[2, 4, 3]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x4x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x4x3xi8> loc("x")
    %1 = "tosa.rescale"(%arg1, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x1x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x1x3xi8> loc("u")
    %2 = "tosa.reshape"(%0, %c4) : (tensor<2x4x3xi8>, !tosa.shape<3>) -> tensor<1x24x1xi8> loc("TensorScatter")
    %3 = "tosa.reshape"(%1, %c5) : (tensor<2x1x3xi8>, !tosa.shape<3>) -> tensor<1x6x1xi8> loc("TensorScatter")
    %4 = "tosa.concat"(%2, %3) <{axis = 1 : i32}> : (tensor<1x24x1xi8>, tensor<1x6x1xi8>) -> tensor<1x30x1xi8> loc("TensorScatter")
    %5 = "tosa.gather"(%4, %c6) : (tensor<1x30x1xi8>, tensor<1x24xi32>) -> tensor<1x24x1xi8> loc("TensorScatter")
    %6 = "tosa.reshape"(%5, %c7) : (tensor<1x24x1xi8>, !tosa.shape<3>) -> tensor<2x4x3xi8> loc("TensorScatter")
    %7 = "tosa.rescale"(%6, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x4x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x4x3xi8> loc("y")
    "func.return"(%7) : (tensor<2x4x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
