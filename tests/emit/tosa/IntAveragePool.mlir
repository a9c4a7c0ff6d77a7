"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x3x3xi8>) -> (tensor<1x2x3x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x3x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<1> : tensor<2x2x2x1xi8>}> : () -> tensor<2x2x2x1xi8>
    %c5 = "tosa.const"() <{values = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
    %c6 = "tosa.const"() <{values = dense<-118> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c7 = "tosa.const"() <{values = dense<1580246656> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c8 = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c9 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c10 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x3xi8> loc("x_0")
    %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x3x3xi8>) -> tensor<1x3x3x2xi8> loc("node")
    %2 = "tosa.depthwise_conv2d"(%1, %c4, %c5, %c6, %c3) <{acc_type = i32, pad = array<i64: 0, 1, 0, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}> : (tensor<1x3x3x2xi8>, tensor<2x2x2x1xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x2xi32> loc("node")
    %3 = "tosa.rescale"(%2, %c7, %c8, %c9, %c10) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x3x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x3x3x2xi8> loc("node")
    %4 = "tosa.transpose"(%3) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x3x3x2xi8>) -> tensor<1x2x3x3xi8> loc("y_0")
    %5 = "tosa.rescale"(%4, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x3xi8> loc("y_0")
    "func.return"(%5) : (tensor<1x2x3x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
