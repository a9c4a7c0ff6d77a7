"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x3x3xi16>) -> (tensor<1x2x3x3xi16>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x3x3xi16>):
    %c0 = "tosa.const"() <{values = dense<"0xF8FCF9FDFAFEFBFF0004010502060307"> : tensor<2x2x2x2xi8>}> : () -> tensor<2x2x2x2xi8>
    %c1 = "tosa.const"() <{values = dense<[5, -6]> : tensor<2xi48>}> : () -> tensor<2xi48>
    %c2 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<24577> : tensor<1xi16>}> : () -> tensor<1xi16>
    %c5 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c6 = "tosa.const"() <{values = dense<[0]> : tensor<1xi48>}> : () -> tensor<1xi48>
    %0 = "tosa.transpose"(%arg0) <{perms = array<i32: 0, 2, 3, 1>}> : (tensor<1x2x3x3xi16>) -> tensor<1x3x3x2xi16> loc("node")
    %1 = "tosa.conv2d"(%0, %c0, %c1, %c2, %c3) <{acc_type = i48, pad = array<i64: 1, 0, 1, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}> : (tensor<1x3x3x2xi16>, tensor<2x2x2x2xi8>, tensor<2xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x3x3x2xi48> loc("node")
    %2 = "tosa.rescale"(%1, %c4, %c5, %c6, %c2) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = false}> : (tensor<1x3x3x2xi48>, tensor<1xi16>, tensor<1xi8>, tensor<1xi48>, tensor<1xi16>) -> tensor<1x3x3x2xi16> loc("node")
    %3 = "tosa.transpose"(%2) <{perms = array<i32: 0, 3, 1, 2>}> : (tensor<1x3x3x2xi16>) -> tensor<1x2x3x3xi16> loc("y_0")
    "func.return"(%3) : (tensor<1x2x3x3xi16>) -> ()
  }) : () -> ()
}) : () -> ()
