"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x3x2x2xi8>) -> (tensor<1x1x2x2xi32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x3x2x2xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 1, 2, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x2x2xi8> loc("x")
    %1 = "tosa.bitwise_not"(%0) : (tensor<1x3x2x2xi8>) -> tensor<1x3x2x2xi8> loc("ArgMin")
    %2 = "tosa.argmax"(%1) <{axis = 1 : i32}> : (tensor<1x3x2x2xi8>) -> tensor<1x2x2xi32> loc("ArgMin")
    %3 = "tosa.reshape"(%2, %c4) : (tensor<1x2x2xi32>, !tosa.shape<4>) -> tensor<1x1x2x2xi32> loc("ArgMin")
    "func.return"(%3) : (tensor<1x1x2x2xi32>) -> ()
  }) : () -> ()
}) : () -> ()
