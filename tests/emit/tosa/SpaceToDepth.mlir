"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x1x2x4xi8>) -> (tensor<1x4x1x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x1x2x4xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const_shape"() <{values = dense<[1, 2, 4, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 2, 1]> : tensor<5xindex>}> : () -> !tosa.shape<5>
    %c6 = "tosa.const_shape"() <{values = dense<[1, 1, 2, 4]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x2x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x2x4xi8> loc("x")
    %1 = "tosa.reshape"(%0, %c4) : (tensor<1x1x2x4xi8>, !tosa.shape<4>) -> tensor<1x2x4x1xi8> loc("SpaceToDepth")
    %2 = "tosa.reshape"(%1, %c5) : (tensor<1x2x4x1xi8>, !tosa.shape<5>) -> tensor<1x2x2x2x1xi8> loc("SpaceToDepth")
    %3 = "tosa.transpose"(%2) <{perms = array<i32: 0, 2, 1, 3, 4>}> : (tensor<1x2x2x2x1xi8>) -> tensor<1x2x2x2x1xi8> loc("SpaceToDepth")
    %4 = "tosa.reshape"(%3, %c6) : (tensor<1x2x2x2x1xi8>, !tosa.shape<4>) -> tensor<1x1x2x4xi8> loc("SpaceToDepth")
    %5 = "tosa.transpose"(%4) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x1x2x4xi8>) -> tensor<1x4x1x2xi8> loc("y")
    %6 = "tosa.rescale"(%5, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4x1x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x1x2xi8> loc("y")
    "func.return"(%6) : (tensor<1x4x1x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
