"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi32>) -> (tensor<2x1xi32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi32>):
    %0 = "tosa.reduce_min"(%arg0) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    "func.return"(%0) : (tensor<2x1xi32>) -> ()
  }) : () -> ()
}) : () -> ()
