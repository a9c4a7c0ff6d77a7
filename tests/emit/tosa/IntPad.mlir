"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi32>) -> (tensor<3x4xi32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi32>):
    %c0 = "tosa.const_shape"() <{values = dense<[0, 1, 1, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c1 = "tosa.const"() <{values = dense<7> : tensor<1xi32>}> : () -> tensor<1xi32>
    %0 = "tosa.pad"(%arg0, %c0, %c1) : (tensor<2x3xi32>, !tosa.shape<4>, tensor<1xi32>) -> tensor<3x4xi32> loc("node")
    "func.return"(%0) : (tensor<3x4xi32>) -> ()
  }) : () -> ()
}) : () -> ()
