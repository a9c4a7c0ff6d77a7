"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x4x2x3xi32>) -> (tensor<1x1x4x6xi32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x4x2x3xi32>):
    %c0 = "tosa.const_shape"() <{values = dense<[1, 2, 2, 1, 2, 3]> : tensor<6xindex>}> : () -> !tosa.shape<6>
    %c1 = "tosa.const_shape"() <{values = dense<[1, 1, 4, 6]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.reshape"(%arg0, %c0) : (tensor<1x4x2x3xi32>, !tosa.shape<6>) -> tensor<1x2x2x1x2x3xi32> loc("node")
    %1 = "tosa.transpose"(%0) <{perms = array<i32: 0, 3, 4, 1, 5, 2>}> : (tensor<1x2x2x1x2x3xi32>) -> tensor<1x1x2x2x3x2xi32> loc("node")
    %2 = "tosa.reshape"(%1, %c1) : (tensor<1x1x2x2x3x2xi32>, !tosa.shape<4>) -> tensor<1x1x4x6xi32> loc("node")
    "func.return"(%2) : (tensor<1x1x4x6xi32>) -> ()
  }) : () -> ()
}) : () -> ()
