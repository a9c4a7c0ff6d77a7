"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x4xi8>) -> (tensor<1x2xi8>, tensor<1x2xi32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1x4xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x03000000020000000100000000000000"> : tensor<1x4xi32>}> : () -> tensor<1x4xi32>
    %c5 = "tosa.const"() <{values = dense<3> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c6 = "tosa.const"() <{values = dense<-2147483648> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c7 = "tosa.const"() <{values = dense<7> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4xi8> loc("x")
    %1 = "tosa.cast"(%0) : (tensor<1x4xi8>) -> tensor<1x4xi32> loc("TopK")
    %2 = "tosa.logical_left_shift"(%1, %c5) : (tensor<1x4xi32>, tensor<1x1xi32>) -> tensor<1x4xi32> loc("TopK")
    %3 = "tosa.add"(%2, %c4) : (tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4xi32> loc("TopK")
    %4 = "tosa.reduce_max"(%3) <{axis = 1 : i32}> : (tensor<1x4xi32>) -> tensor<1x1xi32> loc("TopK")
    %5 = "tosa.greater"(%4, %3) : (tensor<1x1xi32>, tensor<1x4xi32>) -> tensor<1x4xi1> loc("TopK")
    %6 = "tosa.select"(%5, %3, %c6) : (tensor<1x4xi1>, tensor<1x4xi32>, tensor<1x1xi32>) -> tensor<1x4xi32> loc("TopK")
    %7 = "tosa.reduce_max"(%6) <{axis = 1 : i32}> : (tensor<1x4xi32>) -> tensor<1x1xi32> loc("TopK")
    %8 = "tosa.greater"(%7, %6) : (tensor<1x1xi32>, tensor<1x4xi32>) -> tensor<1x4xi1> loc("TopK")
    %9 = "tosa.select"(%8, %6, %c6) : (tensor<1x4xi1>, tensor<1x4xi32>, tensor<1x1xi32>) -> tensor<1x4xi32> loc("TopK")
    %10 = "tosa.concat"(%4, %7) <{axis = 1 : i32}> : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32> loc("TopK")
    %11 = "tosa.arithmetic_right_shift"(%10, %c5) <{round = false}> : (tensor<1x2xi32>, tensor<1x1xi32>) -> tensor<1x2xi32> loc("TopK")
    %12 = "tosa.cast"(%11) : (tensor<1x2xi32>) -> tensor<1x2xi8> loc("TopK")
    %13 = "tosa.bitwise_and"(%10, %c7) : (tensor<1x2xi32>, tensor<1x1xi32>) -> tensor<1x2xi32> loc("TopK")
    %14 = "tosa.sub"(%c5, %13) : (tensor<1x1xi32>, tensor<1x2xi32>) -> tensor<1x2xi32> loc("TopK")
    %15 = "tosa.rescale"(%12, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2xi8> loc("y")
    "func.return"(%15, %14) : (tensor<1x2xi8>, tensor<1x2xi32>) -> ()
  }) : () -> ()
}) : () -> ()
