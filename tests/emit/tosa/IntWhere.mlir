"builtin.module"() ({
  "func.func"() <{function_type = (tensor<3xi1>, tensor<2x3xi32>, tensor<3xi32>) -> (tensor<2x3xi32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<3xi1>, %arg1: tensor<2x3xi32>, %arg2: tensor<3xi32>):
    %c0 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.reshape"(%arg0, %c0) : (tensor<3xi1>, !tosa.shape<2>) -> tensor<1x3xi1> loc("node")
    %1 = "tosa.reshape"(%arg2, %c0) : (tensor<3xi32>, !tosa.shape<2>) -> tensor<1x3xi32> loc("node")
    %2 = "tosa.select"(%0, %arg1, %1) : (tensor<1x3xi1>, tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    "func.return"(%2) : (tensor<2x3xi32>) -> ()
  }) : () -> ()
}) : () -> ()
