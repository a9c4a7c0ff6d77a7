"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 6, 1]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c5 = "tosa.const"() <{values = dense<"0x020000000100000000000000040000000300000005000000"> : tensor<1x6xi32>}> : () -> tensor<1x6xi32>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x")
    %1 = "tosa.reshape"(%0, %c4) : (tensor<2x3xi8>, !tosa.shape<3>) -> tensor<1x6x1xi8> loc("ReverseSequence")
    %2 = "tosa.gather"(%1, %c5) : (tensor<1x6x1xi8>, tensor<1x6xi32>) -> tensor<1x6x1xi8> loc("ReverseSequence")
    %3 = "tosa.reshape"(%2, %c6) : (tensor<1x6x1xi8>, !tosa.shape<2>) -> tensor<2x3xi8> loc("ReverseSequence")
    %4 = "tosa.rescale"(%3, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y")
    "func.return"(%4) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
