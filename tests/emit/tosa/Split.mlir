"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x4x2xi8>) -> (tensor<1x2x2xi8>, tensor<1x2x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x4x2xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[0, 0, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 2, 2]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c6 = "tosa.const_shape"() <{values = dense<[0, 2, 0]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x2xi8> loc("x")
    %1 = "tosa.slice"(%0, %c4, %c5) : (tensor<1x4x2xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x2xi8> loc("Split")
    %2 = "tosa.slice"(%0, %c6, %c5) : (tensor<1x4x2xi8>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<1x2x2xi8> loc("Split")
    %3 = "tosa.rescale"(%1, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi8> loc("y")
    %4 = "tosa.rescale"(%2, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi8> loc("z")
    "func.return"(%3, %4) : (tensor<1x2x2xi8>, tensor<1x2x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
