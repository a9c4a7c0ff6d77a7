"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi1>) -> (tensor<2x3xi1>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi1>):
    %0 = "tosa.logical_not"(%arg0) : (tensor<2x3xi1>) -> tensor<2x3xi1> loc("Not")
    "func.return"(%0) : (tensor<2x3xi1>) -> ()
  }) : () -> ()
}) : () -> ()
