"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x1x2x2xi8>) -> (tensor<1x1x4x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x1x2x2xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<-118> : tensor<1x1x1x1xi32>}> : () -> tensor<1x1x1x1xi32>
    %c5 = "tosa.const"() <{values = dense<"0x04000000030000000100000004000000"> : tensor<1x1x4x1xi32>}> : () -> tensor<1x1x4x1xi32>
    %c6 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c7 = "tosa.const_shape"() <{values = dense<[1, 1, 1, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c8 = "tosa.const"() <{values = dense<"0x00000000010000000300000000000000"> : tensor<1x1x4x1xi32>}> : () -> tensor<1x1x4x1xi32>
    %c9 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c10 = "tosa.const"() <{values = dense<"0x040000000200000004000000"> : tensor<1x1x1x3xi32>}> : () -> tensor<1x1x1x3xi32>
    %c11 = "tosa.const_shape"() <{values = dense<[1, 1, 4, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c12 = "tosa.const"() <{values = dense<"0x000000000200000000000000"> : tensor<1x1x1x3xi32>}> : () -> tensor<1x1x1x3xi32>
    %c13 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c14 = "tosa.const"() <{values = dense<1580246656> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c15 = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c16 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c17 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x2x2xi8> loc("x_0")
    %1 = "tosa.cast"(%0) : (tensor<1x1x2x2xi8>) -> tensor<1x1x2x2xi32> loc("node")
    %2 = "tosa.sub"(%1, %c4) : (tensor<1x1x2x2xi32>, tensor<1x1x1x1xi32>) -> tensor<1x1x2x2xi32> loc("node")
    %3 = "tosa.slice"(%2, %c6, %c7) : (tensor<1x1x2x2xi32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x2xi32> loc("node")
    %4 = "tosa.concat"(%3, %3, %2) <{axis = 2 : i32}> : (tensor<1x1x1x2xi32>, tensor<1x1x1x2xi32>, tensor<1x1x2x2xi32>) -> tensor<1x1x4x2xi32> loc("node")
    %5 = "tosa.mul"(%4, %c5, %c3) : (tensor<1x1x4x2xi32>, tensor<1x1x4x1xi32>, tensor<1xi8>) -> tensor<1x1x4x2xi32> loc("node")
    %6 = "tosa.slice"(%2, %c9, %c7) : (tensor<1x1x2x2xi32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x2xi32> loc("node")
    %7 = "tosa.concat"(%2, %6, %6) <{axis = 2 : i32}> : (tensor<1x1x2x2xi32>, tensor<1x1x1x2xi32>, tensor<1x1x1x2xi32>) -> tensor<1x1x4x2xi32> loc("node")
    %8 = "tosa.mul"(%7, %c8, %c3) : (tensor<1x1x4x2xi32>, tensor<1x1x4x1xi32>, tensor<1xi8>) -> tensor<1x1x4x2xi32> loc("node")
    %9 = "tosa.add"(%5, %8) : (tensor<1x1x4x2xi32>, tensor<1x1x4x2xi32>) -> tensor<1x1x4x2xi32> loc("node")
    %10 = "tosa.slice"(%9, %c6, %c11) : (tensor<1x1x4x2xi32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x4x1xi32> loc("node")
    %11 = "tosa.concat"(%10, %9) <{axis = 3 : i32}> : (tensor<1x1x4x1xi32>, tensor<1x1x4x2xi32>) -> tensor<1x1x4x3xi32> loc("node")
    %12 = "tosa.mul"(%11, %c10, %c3) : (tensor<1x1x4x3xi32>, tensor<1x1x1x3xi32>, tensor<1xi8>) -> tensor<1x1x4x3xi32> loc("node")
    %13 = "tosa.slice"(%9, %c13, %c11) : (tensor<1x1x4x2xi32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x4x1xi32> loc("node")
    %14 = "tosa.concat"(%9, %13) <{axis = 3 : i32}> : (tensor<1x1x4x2xi32>, tensor<1x1x4x1xi32>) -> tensor<1x1x4x3xi32> loc("node")
    %15 = "tosa.mul"(%14, %c12, %c3) : (tensor<1x1x4x3xi32>, tensor<1x1x1x3xi32>, tensor<1xi8>) -> tensor<1x1x4x3xi32> loc("node")
    %16 = "tosa.add"(%12, %15) : (tensor<1x1x4x3xi32>, tensor<1x1x4x3xi32>) -> tensor<1x1x4x3xi32> loc("node")
    %17 = "tosa.rescale"(%16, %c14, %c15, %c16, %c17) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x4x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x4x3xi8> loc("node")
    %18 = "tosa.rescale"(%17, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x4x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x4x3xi8> loc("y_0")
    "func.return"(%18) : (tensor<1x1x4x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
