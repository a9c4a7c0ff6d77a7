"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x4xi8>) -> (tensor<1x2x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x4xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[0, 0, 1]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 2, 3]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c6 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0, 0, 1]> : tensor<6xindex>}> : () -> !tosa.shape<6>
    %c7 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c8 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c9 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c10 = "tosa.const_shape"() <{values = dense<[1, 2, 2]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x4xi8> loc("x")
    %1 = "tosa.slice"(%0, %c4, %c5) : (tensor<1x2x4xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x3xi8> loc("Slice")
    %2 = "tosa.pad"(%1, %c6, %c3) : (tensor<1x2x3xi8>, !tosa.shape<6>, tensor<1xi8>) -> tensor<1x2x4xi8> loc("Slice")
    %3 = "tosa.reshape"(%2, %c7) : (tensor<1x2x4xi8>, !tosa.shape<4>) -> tensor<1x2x2x2xi8> loc("Slice")
    %4 = "tosa.slice"(%3, %c8, %c9) : (tensor<1x2x2x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x2x2x1xi8> loc("Slice")
    %5 = "tosa.reshape"(%4, %c10) : (tensor<1x2x2x1xi8>, !tosa.shape<3>) -> tensor<1x2x2xi8> loc("Slice")
    %6 = "tosa.rescale"(%5, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi8> loc("y")
    "func.return"(%6) : (tensor<1x2x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
