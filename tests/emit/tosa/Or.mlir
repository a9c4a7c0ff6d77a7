"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi1>, tensor<3xi1>) -> (tensor<2x3xi1>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi1>, %arg1: tensor<3xi1>):
    %c0 = "tosa.const_shape"() <{values = dense<[1, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.reshape"(%arg1, %c0) : (tensor<3xi1>, !tosa.shape<2>) -> tensor<1x3xi1> loc("Or")
    %1 = "tosa.logical_or"(%arg0, %0) : (tensor<2x3xi1>, tensor<1x3xi1>) -> tensor<2x3xi1> loc("Or")
    "func.return"(%1) : (tensor<2x3xi1>) -> ()
  }) : () -> ()
}) : () -> ()
