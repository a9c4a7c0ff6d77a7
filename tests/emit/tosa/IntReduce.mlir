"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x3xi8>) -> (tensor<1x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<-118> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
    %c5 = "tosa.const"() <{values = dense<1580246656> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c6 = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c7 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c8 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c9 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3xi8> loc("x_0")
    %1 = "tosa.cast"(%0) : (tensor<1x2x3xi8>) -> tensor<1x2x3xi32> loc("node")
    %2 = "tosa.sub"(%1, %c4) : (tensor<1x2x3xi32>, tensor<1x1x1xi32>) -> tensor<1x2x3xi32> loc("node")
    %3 = "tosa.reduce_sum"(%2) <{axis = 1 : i32}> : (tensor<1x2x3xi32>) -> tensor<1x1x3xi32> loc("node")
    %4 = "tosa.rescale"(%3, %c5, %c6, %c7, %c8) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x3xi8> loc("node")
    %5 = "tosa.reshape"(%4, %c9) : (tensor<1x1x3xi8>, !tosa.shape<2>) -> tensor<1x3xi8> loc("node")
    %6 = "tosa.rescale"(%5, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3xi8> loc("y_0")
    "func.return"(%6) : (tensor<1x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
