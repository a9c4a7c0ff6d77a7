"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>, tensor<3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>, %arg1: tensor<3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<-118> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c5 = "tosa.const"() <{values = dense<333> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c6 = "tosa.const"() <{values = dense<3014> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c7 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c8 = "tosa.const"() <{values = dense<-108> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c9 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<2048> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c11 = "tosa.const"() <{values = dense<4095> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<12> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c15 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("a_0")
    %1 = "tosa.rescale"(%arg1, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<3xi8> loc("b_0")
    %2 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %3 = "tosa.sub"(%2, %c4) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.mul"(%3, %c5, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.mul"(%3, %c6, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %6 = "tosa.reshape"(%1, %c7) : (tensor<3xi8>, !tosa.shape<2>) -> tensor<1x3xi8> loc("node")
    %7 = "tosa.cast"(%6) : (tensor<1x3xi8>) -> tensor<1x3xi32> loc("node")
    %8 = "tosa.sub"(%7, %c8) : (tensor<1x3xi32>, tensor<1x1xi32>) -> tensor<1x3xi32> loc("node")
    %9 = "tosa.mul"(%8, %c9, %c3) : (tensor<1x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<1x3xi32> loc("node")
    %10 = "tosa.mul"(%8, %c10, %c3) : (tensor<1x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<1x3xi32> loc("node")
    %11 = "tosa.add"(%4, %9) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %12 = "tosa.add"(%5, %10) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %13 = "tosa.add"(%11, %c9) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %14 = "tosa.add"(%12, %c10) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %15 = "tosa.bitwise_and"(%13, %c11) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %16 = "tosa.arithmetic_right_shift"(%13, %c12) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %17 = "tosa.add"(%14, %16) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %18 = "tosa.arithmetic_right_shift"(%17, %c12) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %19 = "tosa.bitwise_and"(%17, %c11) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %20 = "tosa.bitwise_or"(%15, %19) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %21 = "tosa.equal"(%20, %c9) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi1> loc("node")
    %22 = "tosa.bitwise_and"(%18, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %23 = "tosa.select"(%21, %22, %c9) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %24 = "tosa.sub"(%18, %23) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %25 = "tosa.rescale"(%24, %c0, %c1, %c14, %c15) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %26 = "tosa.rescale"(%25, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%26) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
