"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0xE8010000CB010000B0010000960100007D01000066010000500100003C010000290100001701000006010000F7000000F4000000E6000000D8000000CB000000BF000000B3000000A80000009E000000940000008B000000830000007C0000007A000000730000006C000000660000005F0000005A000000540000004F0000004A00000046000000420000003E0000003D000000390000003600000033000000300000002D0000002A000000270000002500000023000000210000001F0000001F0000001D0000001B00000019000000180000001600000015000000140000001300000011000000100000000F0000000F0000000E0000000E0000000D0000000C0000000B0000000B0000000A0000000900000009000000080000000800000008000000070000000700000006000000060000000600000005000000050000000500000004000000040000000400000004000000040000000300000003000000030000000300000003000000020000000200000002000000020000000200000002000000020000000200000002000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c7 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c8 = "tosa.const"() <{values = dense<15> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c9 = "tosa.const"() <{values = dense<13> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<1073741824> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c11 = "tosa.const"() <{values = dense<7> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<8192> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<8> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<255> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c15 = "tosa.const"() <{values = dense<3> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c16 = "tosa.const"() <{values = dense<12> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c17 = "tosa.const"() <{values = dense<4095> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c18 = "tosa.const"() <{values = dense<31> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c19 = "tosa.const"() <{values = dense<30> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c20 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c21 = "tosa.const"() <{values = dense<333> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c22 = "tosa.const"() <{values = dense<3014> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c23 = "tosa.const"() <{values = dense<32> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c24 = "tosa.const"() <{values = dense<6> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c25 = "tosa.const"() <{values = dense<63> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c26 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c27 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.reduce_max"(%0) <{axis = 1 : i32}> : (tensor<2x3xi8>) -> tensor<2x1xi8> loc("node")
    %2 = "tosa.cast"(%1) : (tensor<2x1xi8>) -> tensor<2x1xi32> loc("node")
    %3 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.sub"(%2, %3) : (tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.reshape"(%4, %c5) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %6 = "tosa.gather"(%c4, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %7 = "tosa.reshape"(%6, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %8 = "tosa.reduce_sum"(%7) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %9 = "tosa.maximum"(%8, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %10 = "tosa.clz"(%9) : (tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %11 = "tosa.sub"(%10, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %12 = "tosa.logical_left_shift"(%9, %11) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %13 = "tosa.arithmetic_right_shift"(%12, %c8) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %14 = "tosa.logical_left_shift"(%13, %c9) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %15 = "tosa.arithmetic_right_shift"(%13, %c7) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %16 = "tosa.add"(%14, %15) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %17 = "tosa.arithmetic_right_shift"(%c10, %c11) <{round = false}> : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x1xi32> loc("node")
    %18 = "tosa.add"(%17, %16) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %19 = "tosa.intdiv"(%18, %13) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %20 = "tosa.sub"(%19, %c12) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %21 = "tosa.arithmetic_right_shift"(%12, %c13) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %22 = "tosa.mul"(%20, %21, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %23 = "tosa.bitwise_and"(%12, %c14) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %24 = "tosa.mul"(%20, %23, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %25 = "tosa.sub"(%c10, %22) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %26 = "tosa.logical_left_shift"(%25, %c13) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %27 = "tosa.sub"(%26, %24) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %28 = "tosa.arithmetic_right_shift"(%27, %c15) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %29 = "tosa.add"(%28, %16) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %30 = "tosa.intdiv"(%29, %13) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %31 = "tosa.sub"(%30, %c12) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %32 = "tosa.arithmetic_right_shift"(%12, %c16) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %33 = "tosa.mul"(%31, %32, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %34 = "tosa.bitwise_and"(%12, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %35 = "tosa.mul"(%31, %34, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %36 = "tosa.sub"(%27, %33) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %37 = "tosa.logical_left_shift"(%36, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %38 = "tosa.sub"(%37, %35) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %39 = "tosa.arithmetic_right_shift"(%38, %c15) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %40 = "tosa.add"(%39, %16) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %41 = "tosa.intdiv"(%40, %13) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %42 = "tosa.sub"(%41, %c12) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %43 = "tosa.mul"(%42, %32, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %44 = "tosa.mul"(%42, %34, %c3) : (tensor<2x1xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x1xi32> loc("node")
    %45 = "tosa.sub"(%38, %43) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %46 = "tosa.logical_left_shift"(%45, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %47 = "tosa.sub"(%46, %44) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %48 = "tosa.arithmetic_right_shift"(%47, %c18) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %49 = "tosa.bitwise_and"(%48, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %50 = "tosa.sub"(%42, %49) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %51 = "tosa.sub"(%c19, %11) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %52 = "tosa.bitwise_and"(%50, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %53 = "tosa.arithmetic_right_shift"(%50, %c16) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %54 = "tosa.add"(%31, %53) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %55 = "tosa.bitwise_and"(%54, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %56 = "tosa.arithmetic_right_shift"(%54, %c16) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %57 = "tosa.add"(%20, %56) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %58 = "tosa.greater_equal"(%51, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %59 = "tosa.select"(%58, %55, %52) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %60 = "tosa.select"(%58, %57, %55) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %61 = "tosa.select"(%58, %c20, %57) : (tensor<2x1xi1>, tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %62 = "tosa.sub"(%51, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %63 = "tosa.select"(%58, %62, %51) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %64 = "tosa.greater_equal"(%63, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi1> loc("node")
    %65 = "tosa.select"(%64, %60, %59) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %66 = "tosa.select"(%64, %61, %60) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %67 = "tosa.select"(%64, %c20, %61) : (tensor<2x1xi1>, tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %68 = "tosa.sub"(%63, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %69 = "tosa.select"(%64, %68, %63) : (tensor<2x1xi1>, tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %70 = "tosa.logical_left_shift"(%66, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %71 = "tosa.add"(%70, %65) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %72 = "tosa.arithmetic_right_shift"(%71, %69) <{round = false}> : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %73 = "tosa.bitwise_and"(%72, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %74 = "tosa.logical_left_shift"(%67, %c16) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %75 = "tosa.add"(%74, %66) : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %76 = "tosa.arithmetic_right_shift"(%75, %69) <{round = false}> : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %77 = "tosa.bitwise_and"(%76, %c17) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %78 = "tosa.arithmetic_right_shift"(%67, %69) <{round = false}> : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %79 = "tosa.mul"(%7, %73, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %80 = "tosa.mul"(%7, %77, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %81 = "tosa.mul"(%7, %78, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %82 = "tosa.bitwise_and"(%79, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %83 = "tosa.arithmetic_right_shift"(%79, %c16) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %84 = "tosa.add"(%80, %83) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %85 = "tosa.bitwise_and"(%84, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %86 = "tosa.arithmetic_right_shift"(%84, %c16) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %87 = "tosa.add"(%81, %86) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %88 = "tosa.bitwise_and"(%87, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %89 = "tosa.arithmetic_right_shift"(%87, %c16) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %90 = "tosa.mul"(%87, %c21, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %91 = "tosa.mul"(%87, %c22, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %92 = "tosa.add"(%90, %c20) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %93 = "tosa.add"(%91, %c20) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %94 = "tosa.bitwise_and"(%92, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %95 = "tosa.arithmetic_right_shift"(%92, %c16) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %96 = "tosa.add"(%93, %95) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %97 = "tosa.bitwise_and"(%96, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %98 = "tosa.arithmetic_right_shift"(%96, %c16) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %99 = "tosa.add"(%c23, %98) : (tensor<1x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %100 = "tosa.arithmetic_right_shift"(%99, %c24) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %101 = "tosa.bitwise_and"(%99, %c25) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %102 = "tosa.bitwise_or"(%94, %97) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %103 = "tosa.bitwise_or"(%102, %101) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %104 = "tosa.equal"(%103, %c20) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi1> loc("node")
    %105 = "tosa.bitwise_and"(%100, %c7) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %106 = "tosa.select"(%104, %105, %c20) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %107 = "tosa.sub"(%100, %106) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %108 = "tosa.rescale"(%107, %c0, %c1, %c26, %c27) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %109 = "tosa.rescale"(%108, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%109) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
