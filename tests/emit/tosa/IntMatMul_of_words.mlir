"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi16>, tensor<3x2xi16>) -> (tensor<2x2xi16>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi16>, %arg1: tensor<3x2xi16>):
    %c0 = "tosa.const_shape"() <{values = dense<[1, 2, 3]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c1 = "tosa.const_shape"() <{values = dense<[1, 3, 2]> : tensor<3xindex>}> : () -> !tosa.shape<3>
    %c2 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %c3 = "tosa.const"() <{values = dense<24577> : tensor<1xi16>}> : () -> tensor<1xi16>
    %c4 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c5 = "tosa.const"() <{values = dense<[0]> : tensor<1xi48>}> : () -> tensor<1xi48>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %0 = "tosa.cast"(%arg0) : (tensor<2x3xi16>) -> tensor<2x3xi32> loc("node")
    %1 = "tosa.cast"(%0) : (tensor<2x3xi32>) -> tensor<2x3xi16> loc("node")
    %2 = "tosa.cast"(%arg1) : (tensor<3x2xi16>) -> tensor<3x2xi32> loc("node")
    %3 = "tosa.cast"(%2) : (tensor<3x2xi32>) -> tensor<3x2xi16> loc("node")
    %4 = "tosa.reshape"(%1, %c0) : (tensor<2x3xi16>, !tosa.shape<3>) -> tensor<1x2x3xi16> loc("node")
    %5 = "tosa.reshape"(%3, %c1) : (tensor<3x2xi16>, !tosa.shape<3>) -> tensor<1x3x2xi16> loc("node")
    %6 = "tosa.matmul"(%4, %5, %c2, %c2) : (tensor<1x2x3xi16>, tensor<1x3x2xi16>, tensor<1xi16>, tensor<1xi16>) -> tensor<1x2x2xi48> loc("node")
    %7 = "tosa.rescale"(%6, %c3, %c4, %c5, %c2) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = false}> : (tensor<1x2x2xi48>, tensor<1xi16>, tensor<1xi8>, tensor<1xi48>, tensor<1xi16>) -> tensor<1x2x2xi16> loc("node")
    %8 = "tosa.reshape"(%7, %c6) : (tensor<1x2x2xi16>, !tosa.shape<2>) -> tensor<2x2xi16> loc("node")
    "func.return"(%8) : (tensor<2x2xi16>) -> ()
  }) : () -> ()
}) : () -> ()
