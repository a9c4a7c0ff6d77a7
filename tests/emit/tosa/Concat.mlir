"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x2x2xi8>, tensor<1x1x2xi8>) -> (tensor<1x3x2xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x2x2xi8>, %arg1: tensor<1x1x2xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi8> loc("a")
    %1 = "tosa.rescale"(%arg1, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x1x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x2xi8> loc("b")
    %2 = "tosa.concat"(%0, %1) <{axis = 1 : i32}> : (tensor<1x2x2xi8>, tensor<1x1x2xi8>) -> tensor<1x3x2xi8> loc("Concat")
    %3 = "tosa.rescale"(%2, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x2xi8> loc("y")
    "func.return"(%3) : (tensor<1x3x2xi8>) -> ()
  }) : () -> ()
}) : () -> ()
