"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x3x3xi8>) -> (tensor<1x2x2x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x3x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x3xi8> loc("x")
    %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x3x3xi8>) -> tensor<1x3x3x2xi8> loc("MaxPool")
    %2 = "tosa.max_pool2d"(%1) <{kernel = array<i64: 2, 2>, stride = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>}> : (tensor<1x3x3x2xi8>) -> tensor<1x2x2x2xi8> loc("MaxPool")
    %3 = "tosa.transpose"(%2) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xi8> loc("y")
    %4 = "tosa.rescale"(%3, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi8> loc("y")
    "func.return"(%4) : (tensor<1x2x2x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
