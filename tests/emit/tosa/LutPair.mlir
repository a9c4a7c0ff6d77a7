"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>, tensor<3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>, %arg1: tensor<3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c5 = "tosa.const"() <{values = dense<256> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c6 = "tosa.const"() <{values = dense<32896> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c7 = "tosa.const"() <{values = dense<-121> : tensor<1x65536x1xi8>}> : () -> tensor<1x65536x1xi8>
    %c8 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c9 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("a_0")
    %1 = "tosa.rescale"(%arg1, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<3xi8> loc("b_0")
    %2 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %3 = "tosa.reshape"(%1, %c4) : (tensor<3xi8>, !tosa.shape<2>) -> tensor<1x3xi8> loc("node")
    %4 = "tosa.cast"(%3) : (tensor<1x3xi8>) -> tensor<1x3xi32> loc("node")
    %5 = "tosa.mul"(%2, %c5, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %6 = "tosa.add"(%5, %4) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %7 = "tosa.add"(%6, %c6) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %8 = "tosa.reshape"(%7, %c8) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %9 = "tosa.gather"(%c7, %8) : (tensor<1x65536x1xi8>, tensor<1x6xi32>) -> tensor<1x6x1xi8> loc("node")
    %10 = "tosa.reshape"(%9, %c9) : (tensor<1x6x1xi8>, !tosa.shape<2>) -> tensor<2x3xi8> loc("node")
    %11 = "tosa.rescale"(%10, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%11) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
