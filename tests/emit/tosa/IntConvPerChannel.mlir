"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x3x3xi8>) -> (tensor<1x2x3x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x3x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x8A948A948A94"> : tensor<1x1x3x2xi8>}> : () -> tensor<1x1x3x2xi8>
    %c5 = "tosa.const"() <{values = dense<"0xF800F901FA02FB03"> : tensor<2x2x2x1xi8>}> : () -> tensor<2x2x2x1xi8>
    %c6 = "tosa.const"() <{values = dense<"0x09F4FFFF82020000"> : tensor<2xi32>}> : () -> tensor<2xi32>
    %c7 = "tosa.const"() <{values = dense<"0xFFFFFF3F3F000000"> : tensor<1x1x1x2xi32>}> : () -> tensor<1x1x1x2xi32>
    %c8 = "tosa.const"() <{values = dense<"0x0000002020000000"> : tensor<1x1x1x2xi32>}> : () -> tensor<1x1x1x2xi32>
    %c9 = "tosa.const"() <{values = dense<"0x80A6305E00000040"> : tensor<2xi32>}> : () -> tensor<2xi32>
    %c10 = "tosa.const"() <{values = dense<"0x2524"> : tensor<2xi8>}> : () -> tensor<2xi8>
    %c11 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c12 = "tosa.const"() <{values = dense<1> : tensor<1x1x1x1xi32>}> : () -> tensor<1x1x1x1xi32>
    %c13 = "tosa.const"() <{values = dense<0> : tensor<1x1x1x1xi32>}> : () -> tensor<1x1x1x1xi32>
    %c14 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x3xi8> loc("x_0")
    %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x3x3xi8>) -> tensor<1x3x3x2xi8> loc("node")
    %2 = "tosa.concat"(%c4, %1) <{axis = 1 : i32}> : (tensor<1x1x3x2xi8>, tensor<1x3x3x2xi8>) -> tensor<1x4x3x2xi8> loc("node")
    %3 = "tosa.depthwise_conv2d"(%2, %c5, %c6, %c3, %c3) <{acc_type = i32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}> : (tensor<1x4x3x2xi8>, tensor<2x2x2x1xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x2x2xi32> loc("node")
    %4 = "tosa.rescale"(%3, %c9, %c10, %c11, %c11) <{input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x2x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x3x2x2xi32> loc("node")
    %5 = "tosa.bitwise_and"(%3, %c7) : (tensor<1x3x2x2xi32>, tensor<1x1x1x2xi32>) -> tensor<1x3x2x2xi32> loc("node")
    %6 = "tosa.equal"(%5, %c8) : (tensor<1x3x2x2xi32>, tensor<1x1x1x2xi32>) -> tensor<1x3x2x2xi1> loc("node")
    %7 = "tosa.bitwise_and"(%4, %c12) : (tensor<1x3x2x2xi32>, tensor<1x1x1x1xi32>) -> tensor<1x3x2x2xi32> loc("node")
    %8 = "tosa.select"(%6, %7, %c13) : (tensor<1x3x2x2xi1>, tensor<1x3x2x2xi32>, tensor<1x1x1x1xi32>) -> tensor<1x3x2x2xi32> loc("node")
    %9 = "tosa.sub"(%4, %8) : (tensor<1x3x2x2xi32>, tensor<1x3x2x2xi32>) -> tensor<1x3x2x2xi32> loc("node")
    %10 = "tosa.rescale"(%9, %c0, %c1, %c11, %c14) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x2x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x3x2x2xi8> loc("node")
    %11 = "tosa.transpose"(%10) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x3x2x2xi8>) -> tensor<1x2x3x2xi8> loc("y_0")
    %12 = "tosa.rescale"(%11, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x3x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x2xi8> loc("y_0")
    "func.return"(%12) : (tensor<1x2x3x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
