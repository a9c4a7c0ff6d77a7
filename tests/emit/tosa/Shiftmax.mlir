"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xi8>) -> (tensor<2x3xi8>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xi8>):
    %c0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c2 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %c4 = "tosa.const"() <{values = dense<"0x0000080000C00700008007000000070000C006000040060000000600008005000040050000C00400008004000000040000E0030000A003000080030000400300002003000000030000E0020000A0020000800200004002000020020000F0010000E0010000C0010000B00100009001000080010000600100005001000030010000200100001001000000010000F0000000E8000000D8000000D0000000C0000000B8000000A8000000A000000090000000880000007C00000078000000700000006C00000068000000640000005C00000058000000500000004C00000044000000400000003C0000003A0000003600000034000000300000002E0000002A000000280000002600000024000000200000001F0000001D0000001C0000001A000000190000001700000016000000140000001300000011000000100000000F0000800E0000000E0000800D0000800C0000000C0000000B0000800A0000800900000009000000080000C007000040070000000700008006000040060000C00500008005000040050000000500008004000040040000E0030000C003000080030000600300002003000000030000C0020000A0020000600200004002000000020000F0010000E0010000D0010000B0010000A0010000800100007001000050010000400100002001000010010000F8000000F0000000E0000000D8000000C8000000C0000000B8000000B0000000A000000098000000880000008000000078000000740000006C00000068000000600000005C00000054000000500000004800000044000000400000003E0000003A0000003800000034000000320000002E0000002C000000280000002600000022000000200000001E0000001D0000001B0000001A0000001900000018000000160000001500000013000000120000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000100000001000000010000000"> : tensor<1x256x1xi32>}> : () -> tensor<1x256x1xi32>
    %c5 = "tosa.const_shape"() <{values = dense<[1, 6]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c6 = "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}> : () -> !tosa.shape<2>
    %c7 = "tosa.const"() <{values = dense<2147483647> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c8 = "tosa.const"() <{values = dense<4095> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c9 = "tosa.const"() <{values = dense<12> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c10 = "tosa.const"() <{values = dense<333> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c11 = "tosa.const"() <{values = dense<3014> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c12 = "tosa.const"() <{values = dense<0> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c13 = "tosa.const"() <{values = dense<32> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c14 = "tosa.const"() <{values = dense<6> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c15 = "tosa.const"() <{values = dense<63> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c16 = "tosa.const"() <{values = dense<1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %c17 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %c18 = "tosa.const"() <{values = dense<-28> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = "tosa.rescale"(%arg0, %c0, %c1, %c2, %c3) <{input_unsigned = true, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("x_0")
    %1 = "tosa.reduce_max"(%0) <{axis = 1 : i32}> : (tensor<2x3xi8>) -> tensor<2x1xi8> loc("node")
    %2 = "tosa.cast"(%1) : (tensor<2x1xi8>) -> tensor<2x1xi32> loc("node")
    %3 = "tosa.cast"(%0) : (tensor<2x3xi8>) -> tensor<2x3xi32> loc("node")
    %4 = "tosa.sub"(%2, %3) : (tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %5 = "tosa.reshape"(%4, %c5) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<1x6xi32> loc("node")
    %6 = "tosa.gather"(%c4, %5) : (tensor<1x256x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32> loc("node")
    %7 = "tosa.reshape"(%6, %c6) : (tensor<1x6x1xi32>, !tosa.shape<2>) -> tensor<2x3xi32> loc("node")
    %8 = "tosa.reduce_sum"(%7) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32> loc("node")
    %9 = "tosa.intdiv"(%c7, %8) : (tensor<1x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32> loc("node")
    %10 = "tosa.bitwise_and"(%7, %c8) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %11 = "tosa.arithmetic_right_shift"(%7, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %12 = "tosa.bitwise_and"(%9, %c8) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %13 = "tosa.arithmetic_right_shift"(%9, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %14 = "tosa.bitwise_and"(%13, %c8) : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %15 = "tosa.arithmetic_right_shift"(%13, %c9) <{round = false}> : (tensor<2x1xi32>, tensor<1x1xi32>) -> tensor<2x1xi32> loc("node")
    %16 = "tosa.mul"(%10, %12, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %17 = "tosa.mul"(%10, %14, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %18 = "tosa.mul"(%10, %15, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %19 = "tosa.mul"(%11, %12, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %20 = "tosa.add"(%17, %19) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %21 = "tosa.mul"(%11, %14, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %22 = "tosa.add"(%18, %21) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %23 = "tosa.mul"(%11, %15, %c3) : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %24 = "tosa.bitwise_and"(%16, %c8) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %25 = "tosa.arithmetic_right_shift"(%16, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %26 = "tosa.add"(%20, %25) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %27 = "tosa.bitwise_and"(%26, %c8) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %28 = "tosa.arithmetic_right_shift"(%26, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %29 = "tosa.add"(%22, %28) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %30 = "tosa.bitwise_and"(%29, %c8) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %31 = "tosa.arithmetic_right_shift"(%29, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %32 = "tosa.add"(%23, %31) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %33 = "tosa.mul"(%30, %c10, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %34 = "tosa.mul"(%30, %c11, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %35 = "tosa.mul"(%32, %c10, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %36 = "tosa.add"(%34, %35) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %37 = "tosa.mul"(%32, %c11, %c3) : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<2x3xi32> loc("node")
    %38 = "tosa.add"(%33, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %39 = "tosa.add"(%36, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %40 = "tosa.add"(%37, %c13) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %41 = "tosa.bitwise_and"(%38, %c8) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %42 = "tosa.arithmetic_right_shift"(%38, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %43 = "tosa.add"(%39, %42) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %44 = "tosa.bitwise_and"(%43, %c8) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %45 = "tosa.arithmetic_right_shift"(%43, %c9) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %46 = "tosa.add"(%40, %45) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %47 = "tosa.arithmetic_right_shift"(%46, %c14) <{round = false}> : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %48 = "tosa.bitwise_and"(%46, %c15) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %49 = "tosa.bitwise_or"(%41, %44) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %50 = "tosa.bitwise_or"(%49, %48) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %51 = "tosa.equal"(%50, %c12) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi1> loc("node")
    %52 = "tosa.bitwise_and"(%47, %c16) : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %53 = "tosa.select"(%51, %52, %c12) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32> loc("node")
    %54 = "tosa.sub"(%47, %53) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32> loc("node")
    %55 = "tosa.rescale"(%54, %c0, %c1, %c17, %c18) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<2x3xi8> loc("node")
    %56 = "tosa.rescale"(%55, %c0, %c1, %c3, %c2) <{input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8> loc("y_0")
    "func.return"(%56) : (tensor<2x3xi8>) -> ()
  }) : () -> ()
}) : () -> ()
