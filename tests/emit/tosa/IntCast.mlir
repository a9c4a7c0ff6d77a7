"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi1>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi1>):
    %c0 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c1 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c2 = "tosa.const"() <{values = dense<255> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c5 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c6 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c7 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c8 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.cast"(%arg0) : (tensor<2x3xi1>) -> tensor<2x3xi32> loc("node")
    %1 = "tosa.maximum"(%0, %c0) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %2 = "tosa.minimum"(%1, %c1) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %3 = "tosa.mul"(%2, %c2, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.rescale"(%3, %c4, %c5, %c6, %c7) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %5 = "tosa.rescale"(%4, %c4, %c5, %c3, %c8) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%5) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
