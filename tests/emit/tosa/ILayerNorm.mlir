"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<-118> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c5 = "tosa.const"() <{values = dense<768> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c6 = "tosa.const"() <{values = dense<3> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c7 = "tosa.const"() <{values = dense<6> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c8 = "tosa.const"() <{values = dense<256> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c9 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c11 = "tosa.const"() <{values = dense<65536> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<2147483647> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<4095> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<12> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c15 = "tosa.const"() <{values = dense<11> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c16 = "tosa.const"() <{values = dense<"0x0000000000000000FB0F0000"> : tensor<1x3xi32>}> : () -> tensor<1x3xi32>
    %c17 = "tosa.const"() <{values = dense<"0x0001000000000000FFFFFFFF"> : tensor<1x3xi32>}> : () -> tensor<1x3xi32>
    %c18 = "tosa.const"() <{values = dense<"0xD007000060F0FFFFB80B0000"> : tensor<1x3xi32>}> : () -> tensor<1x3xi32>
    %c19 = "tosa.const"() <{values = dense<64> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c20 = "tosa.const"() <{values = dense<7> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c21 = "tosa.const"() <{values = dense<127> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c22 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c23 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %2 = "tosa.sub"(%1, %c4) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %3 = "tosa.reduce_sum"(%2) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %4 = "tosa.add"(%3, %c5) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %5 = "tosa.add"(%4, %4) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %6 = "tosa.add"(%5, %c6) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %7 = "tosa.intdiv"(%6, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %8 = "tosa.mul"(%7, %c7, %c3) : (tensor<2x1xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %9 = "tosa.equal"(%8, %6) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi1> loc("node")
    %10 = "tosa.sub"(%7, %c8) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %11 = "tosa.bitwise_and"(%10, %c9) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %12 = "tosa.select"(%9, %11, %c10) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %13 = "tosa.sub"(%10, %12) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %14 = "tosa.sub"(%2, %13) : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32> loc("node")
    %15 = "tosa.mul"(%14, %14, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %16 = "tosa.reduce_sum"(%15) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %17 = "tosa.intdiv"(%16, %c11) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %18 = "tosa.add"(%c11, %17) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %19 = "tosa.arithmetic_right_shift"(%18, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %20 = "tosa.intdiv"(%16, %19) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %21 = "tosa.add"(%19, %20) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %22 = "tosa.arithmetic_right_shift"(%21, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %23 = "tosa.intdiv"(%16, %22) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %24 = "tosa.add"(%22, %23) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %25 = "tosa.arithmetic_right_shift"(%24, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %26 = "tosa.intdiv"(%16, %25) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %27 = "tosa.add"(%25, %26) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %28 = "tosa.arithmetic_right_shift"(%27, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %29 = "tosa.intdiv"(%16, %28) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %30 = "tosa.add"(%28, %29) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %31 = "tosa.arithmetic_right_shift"(%30, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %32 = "tosa.intdiv"(%16, %31) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %33 = "tosa.add"(%31, %32) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %34 = "tosa.arithmetic_right_shift"(%33, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %35 = "tosa.intdiv"(%16, %34) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %36 = "tosa.add"(%34, %35) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %37 = "tosa.arithmetic_right_shift"(%36, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %38 = "tosa.intdiv"(%16, %37) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %39 = "tosa.add"(%37, %38) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %40 = "tosa.arithmetic_right_shift"(%39, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %41 = "tosa.intdiv"(%16, %40) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %42 = "tosa.add"(%40, %41) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %43 = "tosa.arithmetic_right_shift"(%42, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %44 = "tosa.intdiv"(%16, %43) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %45 = "tosa.add"(%43, %44) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %46 = "tosa.arithmetic_right_shift"(%45, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %47 = "tosa.intdiv"(%c12, %46) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %48 = "tosa.bitwise_and"(%47, %c13) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %49 = "tosa.arithmetic_right_shift"(%47, %c14) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %50 = "tosa.bitwise_and"(%49, %c13) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %51 = "tosa.arithmetic_right_shift"(%49, %c14) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %52 = "tosa.mul"(%14, %48, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %53 = "tosa.mul"(%14, %50, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %54 = "tosa.mul"(%14, %51, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %55 = "tosa.bitwise_and"(%52, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %56 = "tosa.arithmetic_right_shift"(%52, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %57 = "tosa.add"(%53, %56) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %58 = "tosa.bitwise_and"(%57, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %59 = "tosa.arithmetic_right_shift"(%57, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %60 = "tosa.add"(%54, %59) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %61 = "tosa.arithmetic_right_shift"(%55, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %62 = "tosa.arithmetic_right_shift"(%58, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %63 = "tosa.arithmetic_right_shift"(%60, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %64 = "tosa.bitwise_and"(%58, %c9) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %65 = "tosa.logical_left_shift"(%64, %c15) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %66 = "tosa.add"(%61, %65) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %67 = "tosa.bitwise_and"(%60, %c9) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %68 = "tosa.logical_left_shift"(%67, %c15) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %69 = "tosa.add"(%62, %68) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %70 = "tosa.add"(%66, %c16) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %71 = "tosa.add"(%69, %c17) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32> loc("node")
    %72 = "tosa.bitwise_and"(%70, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %73 = "tosa.arithmetic_right_shift"(%70, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %74 = "tosa.add"(%71, %73) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %75 = "tosa.bitwise_and"(%74, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %76 = "tosa.arithmetic_right_shift"(%74, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %77 = "tosa.add"(%63, %76) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %78 = "tosa.mul"(%70, %c18, %c3) : (tensor<2x3xi32>, tensor<1x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %79 = "tosa.mul"(%71, %c18, %c3) : (tensor<2x3xi32>, tensor<1x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %80 = "tosa.mul"(%63, %c18, %c3) : (tensor<2x3xi32>, tensor<1x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %81 = "tosa.add"(%78, %c10) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %82 = "tosa.add"(%79, %c10) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %83 = "tosa.add"(%80, %c19) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %84 = "tosa.bitwise_and"(%81, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %85 = "tosa.arithmetic_right_shift"(%81, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %86 = "tosa.add"(%82, %85) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %87 = "tosa.bitwise_and"(%86, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %88 = "tosa.arithmetic_right_shift"(%86, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %89 = "tosa.add"(%83, %88) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %90 = "tosa.arithmetic_right_shift"(%89, %c20) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %91 = "tosa.bitwise_and"(%89, %c21) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %92 = "tosa.bitwise_or"(%84, %87) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %93 = "tosa.bitwise_or"(%92, %91) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %94 = "tosa.equal"(%93, %c10) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi1> loc("node")
    %95 = "tosa.bitwise_and"(%90, %c9) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %96 = "tosa.select"(%94, %95, %c10) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %97 = "tosa.sub"(%90, %96) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %98 = "tosa.rescale"(%97, %c0, %c1, %c22, %c23) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %99 = "tosa.rescale"(%98, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%99) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
