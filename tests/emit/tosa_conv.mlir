"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x1x2x2xi8>) -> (tensor<1x1x2x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x1x2x2xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c5 = "tosa.const"() <{values = dense<127> : tensor<1x1x1x1xi8>}> : () -> tensor<1x1x1x1xi8>
    %c6 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c7 = "tosa.const"() <{values = dense<-43> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c8 = "tosa.const"() <{values = dense<1082196480> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c9 = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c10 = "tosa.const_shape"() <{values = dense<[1, 1, 2, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x2x2xi8> loc("x")
    %1 = "tosa.reshape"(%0, %c4) : (tensor<1x1x2x2xi8>, !tosa.shape<4>) -> tensor<1x2x2x1xi8> loc("conv")
    %2 = "tosa.depthwise_conv2d"(%1, %c5, %c6, %c7, %c3) <{acc_type = i32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}> : (tensor<1x2x2x1xi8>, tensor<1x1x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x1xi32> loc("conv")
    %3 = "tosa.rescale"(%2, %c8, %c9, %c6, %c7) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2x1xi8> loc("conv")
    %4 = "tosa.reshape"(%3, %c10) : (tensor<1x2x2x1xi8>, !tosa.shape<4>) -> tensor<1x1x2x2xi8> loc("y")
    %5 = "tosa.rescale"(%4, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x2x2xi8> loc("y")
    "func.return"(%5) : (tensor<1x1x2x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
