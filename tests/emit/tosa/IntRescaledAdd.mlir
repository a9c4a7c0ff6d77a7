"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>, tensor<3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>, %arg1: tensor<3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<-118> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c5 = "tosa.const"() <{values = dense<20> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c6 = "tosa.const"() <{values = dense<31> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c7 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c8 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c9 = "tosa.const"() <{values = dense<-108> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<1234567890> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c11 = "tosa.const"() <{values = dense<32> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c12 = "tosa.const"() <{values = dense<1987654321> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c13 = "tosa.const"() <{values = dense<50> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c14 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("a_0")
    %1 = "tosa.rescale"(%arg1, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<3xi8> loc("b_0")
    %2 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %3 = "tosa.sub"(%2, %c4) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.logical_left_shift"(%3, %c5) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.rescale"(%4, %c0, %c6, %c7, %c7) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x3xi32> loc("node")
    %6 = "tosa.reshape"(%1, %c8) : (tensor<3xi8>, !tosa.shape<2>) -> tensor<1x3xi8> loc("node")
    %7 = "tosa.cast"(%6) : (tensor<1x3xi8>) -> tensor<1x3xi32> loc("node")
    %8 = "tosa.sub"(%7, %c9) : (tensor<1x3xi32>, tensor<1x1xi32>) -> tensor<1x3xi32> loc("node")
    %9 = "tosa.logical_left_shift"(%8, %c5) : (tensor<1x3xi32>, tensor<1x1xi32>) -> tensor<1x3xi32> loc("node")
    %10 = "tosa.rescale"(%9, %c10, %c11, %c7, %c7) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x3xi32> loc("node")
    %11 = "tosa.add"(%5, %10) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %12 = "tosa.rescale"(%11, %c12, %c13, %c7, %c14) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %13 = "tosa.rescale"(%12, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%13) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
