"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x1x3x3xi16>) -> (tensor<1x1x2x2xi16>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x1x3x3xi16>):
    %c0 = "tosa.const_shape"() <{values = dense<[1, 3, 3, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %c1 = "tosa.const_shape"() <{values = dense<[1, 1, 2, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
    %0 = "tosa.reshape"(%arg0, %c0) : (tensor<1x1x3x3xi16>, !tosa.shape<4>) -> tensor<1x3x3x1xi16> loc("node")
    %1 = "tosa.max_pool2d"(%0) <{kernel = array<i64: 2, 2>, stride = array<i64: 1, 2>, pad = array<i64: 0, 0, 1, 0>}> : (tensor<1x3x3x1xi16>) -> tensor<1x2x2x1xi16> loc("node")
    %2 = "tosa.reshape"(%1, %c1) : (tensor<1x2x2x1xi16>, !tosa.shape<4>) -> tensor<1x1x2x2xi16> loc("y_0")
    "func.return"(%2) : (tensor<1x1x2x2xi16>) -> ()
  }) : () -> ()
}) : () -> ()
