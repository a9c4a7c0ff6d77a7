"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x3x3xi8>) -> (tensor<1x2x1x1xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x3x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<-118> : tensor<1x1x1x1xi32>}> : () -> tensor<1x1x1x1xi32>
    %c5 = "tosa.const"() <{values = dense<1580246656> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c6 = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c7 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c8 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c9 = "tosa.const_shape"() <{values = dense<[1, 2, 1, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x3xi8> loc("x_0")
    %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x3x3xi8>) -> tensor<1x3x3x2xi8> loc("node")
    %2 = "tosa.cast"(%1) : (tensor<1x3x3x2xi8>) -> tensor<1x3x3x2xi32> loc("node")
    %3 = "tosa.sub"(%2, %c4) : (tensor<1x3x3x2xi32>, tensor<1x1x1x1xi32>) -> tensor<1x3x3x2xi32> loc("node")
    %4 = "tosa.reduce_sum"(%3) <{axis = 1 : i32}> : (tensor<1x3x3x2xi32>) -> tensor<1x1x3x2xi32> loc("node")
    %5 = "tosa.reduce_sum"(%4) <{axis = 2 : i32}> : (tensor<1x1x3x2xi32>) -> tensor<1x1x1x2xi32> loc("node")
    %6 = "tosa.rescale"(%5, %c5, %c6, %c7, %c8) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x1x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x1x2xi8> loc("node")
    %7 = "tosa.reshape"(%6, %c9) : (tensor<1x1x1x2xi8>, !tosa.shape<4>) -> tensor<1x2x1x1xi8> loc("y_0")
    %8 = "tosa.rescale"(%7, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x1x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x1x1xi8> loc("y_0")
    "func.return"(%8) : (tensor<1x2x1x1xi8>) -> ()
  }) : () -> ()
}) : () -> ()
