"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>, tensor<3xi8>) -> (tensor<2x3xi1>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>, %arg1: tensor<3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("a")
    %1 = "tosa.rescale"(%arg1, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<3xi8> loc("b")
    %2 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("Less")
    %3 = "tosa.reshape"(%1, %c4) : (tensor<3xi8>, !tosa.shape<2>) -> tensor<1x3xi8> loc("Less")
    %4 = "tosa.cast"(%3) : (tensor<1x3xi8>) -> tensor<1x3xi32> loc("Less")
    %5 = "tosa.greater"(%4, %2) : (tensor<1x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1> loc("Less")
    "func.return"(%5) : (tensor<2x3xi1>) -> ()
  }) : () -> ()
}) : () -> ()
