"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x000000080000C00700008007000000070000C006000040060000000600008005000040050000C00400008004000000040000E0030000A003000080030000400300002003000000030000E0020000A0020000800200004002000020020000F0010000E0010000C0010000B00100009001000080010000600100005001000030010000200100001001000000010000F0000000E8000000D8000000D0000000C0000000B8000000A8000000A000000090000000880000007C00000078000000700000006C00000068000000640000005C00000058000000500000004C00000044000000400000003C0000003A0000003600000034000000300000002E0000002A000000280000002600000024000000200000001F0000001D0000001C0000001A000000190000001700000016000000140000001300000011000000100000000F0000800E0000000E0000800D0000800C0000000C0000000B0000800A0000800900000009000000080000C007000040070000000700008006000040060000C00500008005000040050000000500008004000040040000E0030000C003000080030000600300002003000000030000C0020000A0020000600200004002000000020000F0010000E0010000D0010000B0010000A0010000800100007001000050010000400100002001000010010000F8000000F0000000E0000000D8000000C8000000C0000000B8000000B0000000A000000098000000880000008000000078000000740000006C00000068000000600000005C00000054000000500000004800000044000000400000003E0000003A0000003800000034000000320000002E0000002C000000280000002600000022000000200000001E0000001D0000001B0000001A000000190000001800000016000000150000001300000012000000100000800F0000800E0000000E0000000D0000800C0000800B0000000B0000000A0000800900000009000080080000C00700008007000000070000C006000040060000000600008005000040050000C00400008004000000040000E0030000A003000080030000600300004003000000030000E0020000A0020000800200004002000020020000F0010000E0010000C0010000B00100009001000080010000600100005001000040010000300100001001000000010000F0000000E8000000D8000000D0000000C0000000B8000000A8000000A000000090000000880000007C00000078000000740000007000000068000000640000005C00000058000000500000004C00000044000000400000003C0000003A0000003600000034000000300000002E0000002C0000002A0000002600000024000000200000001F0000001D0000001C0000001A000000190000001700000016000000140000001300000011000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c7 = "tosa.const"() <{values = dense<128> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c8 = "tosa.const"() <{values = dense<"0x0000800F0000800E0000000E0000000D0000800C0000800B0000000B0000000A0000800900008008000000080000C00700008007000000070000C006000040060000000600008005000040050000C00400008004000000040000E0030000A003000080030000400300002003000000030000E0020000A0020000800200004002000020020000F0010000E0010000C0010000B00100009001000080010000600100005001000030010000200100001001000000010000F0000000E8000000D8000000D0000000C0000000B8000000A8000000A000000090000000880000007C00000078000000700000006C00000068000000640000005C00000058000000500000004C00000044000000400000003C0000003A0000003600000034000000300000002E0000002A000000280000002600000024000000200000001F0000001D0000001C0000001A000000190000001700000016000000140000001300000011000000100000000F0000800E0000000E0000800D0000800C0000000C0000000B0000800A0000800900000009000000080000C007000040070000000700008006000040060000C00500008005000040050000000500008004000040040000E0030000C003000080030000600300002003000000030000C0020000A0020000600200004002000000020000F0010000E0010000D0010000B0010000A0010000800100007001000050010000400100002001000010010000F8000000F0000000E0000000D8000000C8000000C0000000B8000000B0000000A000000098000000880000008000000078000000740000006C00000068000000600000005C00000054000000500000004800000044000000400000003E0000003A0000003800000034000000320000002E0000002C000000280000002600000022000000200000001E0000001D0000001B0000001A000000190000001800000016000000150000001300000012000000100000800F0000800E0000000E0000000D0000800C0000800B0000000B0000000A0000800900000009000080080000C00700008007000000070000C006000040060000000600008005000040050000C00400008004000000040000E0030000A003000080030000600300004003000000030000E0020000A0020000800200004002000020020000F0010000E0010000C0010000B00100009001000080010000600100005001000040010000300100001001000000010000F0000000E8000000D8000000D0000000C0000000B8000000A8000000A000000090000000880000007C00000078000000740000007000000068000000640000005C00000058000000500000004C00000044000000400000003C0000003A0000003600000034000000300000002E0000002C0000002A000000260000002400000020000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c9 = "tosa.const_shape"() <{values = dense<[1, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c10 = "tosa.const_shape"() <{values = dense<[2, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c11 = "tosa.const"() <{values = dense<2147483647> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<4095> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<12> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<-118> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c15 = "tosa.const"() <{values = dense<333> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c16 = "tosa.const"() <{values = dense<3014> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c17 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c18 = "tosa.const"() <{values = dense<32> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c19 = "tosa.const"() <{values = dense<6> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c20 = "tosa.const"() <{values = dense<63> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c21 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c22 = "tosa.const"() <{values = dense<-65536> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c23 = "tosa.const"() <{values = dense<65535> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c24 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c25 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.reduce_max"(%0) <{axis = 1 : i32}> : (tensor<2x3xi8>) -> tensor<2x1xi8> loc("node")
    %2 = "tosa.cast"(%1) : (tensor<2x1xi8>) -> tensor<2x1xi32> loc("node")
    %3 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.sub"(%2, %3) : (tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.reshape"(%4, %c5) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %6 = "tosa.gather"(%c4, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %7 = "tosa.reshape"(%6, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %8 = "tosa.add"(%2, %c7) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %9 = "tosa.reshape"(%8, %c9) : (tensor<2x1xi32>, !tosa.shape<2>) -> tensor<1x2xi32> loc("node")
    %10 = "tosa.gather"(%c8, %9) : (tensor<1x256x1xi32>, tensor<1x2xi32>) -> tensor<1x2x1xi32> loc("node")
    %11 = "tosa.reshape"(%10, %c10) : (tensor<1x2x1xi32>, !tosa.shape<2>) -> tensor<2x1xi32> loc("node")
    %12 = "tosa.add"(%7, %11) : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32> loc("node")
    %13 = "tosa.intdiv"(%c11, %12) : (tensor<1x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %14 = "tosa.bitwise_and"(%7, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %15 = "tosa.arithmetic_right_shift"(%7, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %16 = "tosa.bitwise_and"(%15, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %17 = "tosa.arithmetic_right_shift"(%15, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %18 = "tosa.bitwise_and"(%13, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %19 = "tosa.arithmetic_right_shift"(%13, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %20 = "tosa.bitwise_and"(%19, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %21 = "tosa.arithmetic_right_shift"(%19, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %22 = "tosa.mul"(%14, %18, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %23 = "tosa.mul"(%14, %20, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %24 = "tosa.mul"(%14, %21, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %25 = "tosa.mul"(%16, %18, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %26 = "tosa.add"(%23, %25) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %27 = "tosa.mul"(%16, %20, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %28 = "tosa.add"(%24, %27) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %29 = "tosa.mul"(%16, %21, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %30 = "tosa.mul"(%17, %18, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %31 = "tosa.add"(%28, %30) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %32 = "tosa.mul"(%17, %20, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %33 = "tosa.add"(%29, %32) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %34 = "tosa.mul"(%17, %21, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %35 = "tosa.bitwise_and"(%22, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %36 = "tosa.arithmetic_right_shift"(%22, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %37 = "tosa.add"(%26, %36) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %38 = "tosa.bitwise_and"(%37, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %39 = "tosa.arithmetic_right_shift"(%37, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %40 = "tosa.add"(%31, %39) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %41 = "tosa.bitwise_and"(%40, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %42 = "tosa.arithmetic_right_shift"(%40, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %43 = "tosa.add"(%33, %42) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %44 = "tosa.bitwise_and"(%43, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %45 = "tosa.arithmetic_right_shift"(%43, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %46 = "tosa.add"(%34, %45) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %47 = "tosa.sub"(%3, %c14) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %48 = "tosa.mul"(%47, %41, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %49 = "tosa.mul"(%47, %44, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %50 = "tosa.mul"(%47, %46, %c3) : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %51 = "tosa.bitwise_and"(%48, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %52 = "tosa.arithmetic_right_shift"(%48, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %53 = "tosa.add"(%49, %52) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %54 = "tosa.bitwise_and"(%53, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %55 = "tosa.arithmetic_right_shift"(%53, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %56 = "tosa.add"(%50, %55) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %57 = "tosa.bitwise_and"(%56, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %58 = "tosa.arithmetic_right_shift"(%56, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %59 = "tosa.mul"(%51, %c15, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %60 = "tosa.mul"(%51, %c16, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %61 = "tosa.mul"(%54, %c15, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %62 = "tosa.add"(%60, %61) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %63 = "tosa.mul"(%54, %c16, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %64 = "tosa.mul"(%57, %c15, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %65 = "tosa.add"(%63, %64) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %66 = "tosa.mul"(%57, %c16, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %67 = "tosa.mul"(%58, %c15, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %68 = "tosa.add"(%66, %67) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %69 = "tosa.mul"(%58, %c16, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %70 = "tosa.add"(%59, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %71 = "tosa.add"(%62, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %72 = "tosa.add"(%65, %c18) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %73 = "tosa.bitwise_and"(%70, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %74 = "tosa.arithmetic_right_shift"(%70, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %75 = "tosa.add"(%71, %74) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %76 = "tosa.bitwise_and"(%75, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %77 = "tosa.arithmetic_right_shift"(%75, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %78 = "tosa.add"(%72, %77) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %79 = "tosa.bitwise_and"(%78, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %80 = "tosa.arithmetic_right_shift"(%78, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %81 = "tosa.add"(%68, %80) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %82 = "tosa.bitwise_and"(%81, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %83 = "tosa.arithmetic_right_shift"(%81, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %84 = "tosa.add"(%69, %83) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %85 = "tosa.arithmetic_right_shift"(%79, %c19) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %86 = "tosa.arithmetic_right_shift"(%82, %c19) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %87 = "tosa.arithmetic_right_shift"(%84, %c19) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %88 = "tosa.bitwise_and"(%82, %c20) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %89 = "tosa.logical_left_shift"(%88, %c19) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %90 = "tosa.add"(%85, %89) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %91 = "tosa.bitwise_and"(%84, %c20) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %92 = "tosa.logical_left_shift"(%91, %c19) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %93 = "tosa.add"(%86, %92) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %94 = "tosa.bitwise_and"(%79, %c20) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %95 = "tosa.bitwise_or"(%73, %76) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %96 = "tosa.bitwise_or"(%95, %94) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %97 = "tosa.equal"(%96, %c17) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi1> loc("node")
    %98 = "tosa.bitwise_and"(%90, %c21) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %99 = "tosa.select"(%97, %98, %c17) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %100 = "tosa.sub"(%90, %99) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %101 = "tosa.bitwise_and"(%100, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %102 = "tosa.arithmetic_right_shift"(%100, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %103 = "tosa.add"(%93, %102) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %104 = "tosa.bitwise_and"(%103, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %105 = "tosa.arithmetic_right_shift"(%103, %c13) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %106 = "tosa.add"(%87, %105) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %107 = "tosa.logical_left_shift"(%106, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %108 = "tosa.add"(%107, %104) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %109 = "tosa.maximum"(%108, %c22) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %110 = "tosa.minimum"(%109, %c23) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %111 = "tosa.logical_left_shift"(%110, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %112 = "tosa.add"(%111, %101) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %113 = "tosa.rescale"(%112, %c0, %c1, %c24, %c25) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %114 = "tosa.rescale"(%113, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%114) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
