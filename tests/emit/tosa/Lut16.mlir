"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi32>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi32>):
    %c0 = "tosa.const"() <{values = dense<65535> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c1 = "tosa.const"() <{values = dense<-121> : tensor<1x65536x1xi8>}> : () -> tensor<1x65536x1xi8>
    %c2 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c3 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c4 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c5 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c6 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c7 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.bitwise_and"(%arg0, %c0) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %1 = "tosa.reshape"(%0, %c2) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %2 = "tosa.gather"(%c1, %1) : (tensor<1x65536x1xi8>, tensor<1x6xi32>) -> tensor<1x6x1xi8> loc("node")
    %3 = "tosa.reshape"(%2, %c3) : (tensor<1x6x1xi8>, !tosa.shape<2>) -> tensor<2x3xi8> loc("node")
    %4 = "tosa.rescale"(%3, %c4, %c5, %c6, %c7) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%4) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
