"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x1x2x2xi8>) -> (tensor<1x1x4x4xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x1x2x2xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 1, 1, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c6 = "tosa.const_shape"() <{values = dense<[0, 0, 1, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c7 = "tosa.const_shape"() <{values = dense<[1, 1, 4, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c8 = "tosa.const_shape"() <{values = dense<[0, 0, 0, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x2x2xi8> loc("x")
    %1 = "tosa.slice"(%0, %c4, %c5) : (tensor<1x1x2x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x2xi8> loc("Resize")
    %2 = "tosa.slice"(%0, %c6, %c5) : (tensor<1x1x2x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x2xi8> loc("Resize")
    %3 = "tosa.concat"(%1, %0, %2) <{axis = 2 : i32}> : (tensor<1x1x1x2xi8>, tensor<1x1x2x2xi8>, tensor<1x1x1x2xi8>) -> tensor<1x1x4x2xi8> loc("Resize")
    %4 = "tosa.slice"(%3, %c4, %c7) : (tensor<1x1x4x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x4x1xi8> loc("Resize")
    %5 = "tosa.slice"(%3, %c8, %c7) : (tensor<1x1x4x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x4x1xi8> loc("Resize")
    %6 = "tosa.concat"(%4, %3, %5) <{axis = 3 : i32}> : (tensor<1x1x4x1xi8>, tensor<1x1x4x2xi8>, tensor<1x1x4x1xi8>) -> tensor<1x1x4x4xi8> loc("Resize")
    %7 = "tosa.rescale"(%6, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x4x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x4x4xi8> loc("y")
    "func.return"(%7) : (tensor<1x1x4x4xi8>) -> ()
  }) : () -> ()
}) : () -> ()
