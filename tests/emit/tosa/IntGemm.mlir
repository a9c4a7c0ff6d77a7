"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4xi8>) -> (tensor<2x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x4xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[2, 1, 1, 4]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c5 = "tosa.const"() <{values = dense<"0xF8FAFCFEF9FBFDFF"> : tensor<2x1x1x4xi8>}> : () -> tensor<2x1x1x4xi8>
    %c6 = "tosa.const"() <{values = dense<"0x05000000FAFFFFFF"> : tensor<2xi32>}> : () -> tensor<2xi32>
    %c7 = "tosa.const"() <{values = dense<-118> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c8 = "tosa.const"() <{values = dense<"0xFFFFFF3F3F000000"> : tensor<1x1x1x2xi32>}> : () -> tensor<1x1x1x2xi32>
    %c9 = "tosa.const"() <{values = dense<"0x0000002020000000"> : tensor<1x1x1x2xi32>}> : () -> tensor<1x1x1x2xi32>
    %c10 = "tosa.const"() <{values = dense<"0x80A6305E00000040"> : tensor<2xi32>}> : () -> tensor<2xi32>
    %c11 = "tosa.const"() <{values = dense<"0x2524"> : tensor<2xi8>}> : () -> tensor<2xi8>
    %c12 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c13 = "tosa.const"() <{values = dense<1> : tensor<1x1x1x1xi32>}> : () -> tensor<1x1x1x1xi32>
    %c14 = "tosa.const"() <{values = dense<0> : tensor<1x1x1x1xi32>}> : () -> tensor<1x1x1x1xi32>
    %c15 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c16 = "tosa.const_shape"() <{values = dense<[2, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x4xi8> loc("x_0")
    %1 = "tosa.reshape"(%0, %c4) : (tensor<2x4xi8>, !tosa.shape<4>) -> tensor<2x1x1x4xi8> loc("node")
    %2 = "tosa.conv2d"(%1, %c5, %c6, %c7, %c3) <{acc_type = i32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}> : (tensor<2x1x1x4xi8>, tensor<2x1x1x4xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x1x1x2xi32> loc("node")
    %3 = "tosa.rescale"(%2, %c10, %c11, %c12, %c12) <{input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x1x1x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x1x1x2xi32> loc("node")
    %4 = "tosa.bitwise_and"(%2, %c8) : (tensor<2x1x1x2xi32>, tensor<1x1x1x2xi32>) -> tensor<2x1x1x2xi32> loc("node")
    %5 = "tosa.equal"(%4, %c9) : (tensor<2x1x1x2xi32>, tensor<1x1x1x2xi32>) -> tensor<2x1x1x2xi1> loc("node")
    %6 = "tosa.bitwise_and"(%3, %c13) : (tensor<2x1x1x2xi32>, tensor<1x1x1x1xi32>) -> tensor<2x1x1x2xi32> loc("node")
    %7 = "tosa.select"(%5, %6, %c14) : (tensor<2x1x1x2xi1>, tensor<2x1x1x2xi32>, tensor<1x1x1x1xi32>) -> tensor<2x1x1x2xi32> loc("node")
    %8 = "tosa.sub"(%3, %7) : (tensor<2x1x1x2xi32>, tensor<2x1x1x2xi32>) -> tensor<2x1x1x2xi32> loc("node")
    %9 = "tosa.rescale"(%8, %c0, %c1, %c12, %c15) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x1x1x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x1x1x2xi8> loc("node")
    %10 = "tosa.reshape"(%9, %c16) : (tensor<2x1x1x2xi8>, !tosa.shape<2>) -> tensor<2x2xi8> loc("node")
    %11 = "tosa.rescale"(%10, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x2xi8> loc("y_0")
    "func.return"(%11) : (tensor<2x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
